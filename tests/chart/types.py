"""Kubernetes' own types within the chart's schema, copied from Kubernetes' published schemas.

`python -m tests.chart.types` writes them again. Run it after an update of kubernetes-validate, or after a value got
another type.
"""

import json
import re
from pathlib import Path
from typing import Any

import kubernetes_validate

SCHEMA = Path(__file__).parents[2] / "charts/triggerctl/values.schema.json"
PREFIX = "io.k8s."
_NAMED = re.compile(r'"#/\$defs/(io\.k8s\.[\w.\-]+)"')


def referenced_types(schema: dict[str, Any]) -> dict[str, Any]:
    """Return every Kubernetes type that a schema of values refers to, directly or through other types."""
    newest = kubernetes_validate.latest_version()
    path = f"kubernetes-json-schema/v{newest}-local-strict/_definitions.json"
    known = kubernetes_validate.utils.schema_contents(path, newest)["$defs"]
    own = {name: part for name, part in schema["$defs"].items() if not name.startswith(PREFIX)}
    pending, types = set(_NAMED.findall(json.dumps({**schema, "$defs": own}))), {}
    while pending:
        name = pending.pop()
        text = re.sub(r"_definitions\.json#/\$defs/", "#/$defs/", json.dumps(_without_descriptions(known[name])))
        types[name] = json.loads(text)
        pending |= set(_NAMED.findall(text)) - types.keys()
    return dict(sorted(types.items()))


def with_types(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with the current Kubernetes types."""
    own = {name: part for name, part in schema["$defs"].items() if not name.startswith(PREFIX)}
    return {**schema, "$defs": {**own, **referenced_types(schema)}}


def _without_descriptions(part: Any) -> Any:
    match part:
        case dict():
            return {
                name: _without_descriptions(value)
                for name, value in part.items()
                if not (name.startswith("x-kubernetes") or (name == "description" and isinstance(value, str)))
            }
        case list():
            return [_without_descriptions(value) for value in part]
        case _:
            return part


if __name__ == "__main__":
    SCHEMA.write_text(json.dumps(with_types(json.loads(SCHEMA.read_text())), indent=1) + "\n")

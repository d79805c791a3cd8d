"""Kubernetes' own types within the chart's schema: taken from its published schemas, never written by hand.

`python -m tests.chart.types` writes them anew, after another version of kubernetes-validate or a value of another type.
"""

import json
import re
from pathlib import Path
from typing import Any

import kubernetes_validate

SCHEMA = Path(__file__).parents[2] / "charts/triggerctl/values.schema.json"
PREFIX = "io.k8s."
_NAMED = re.compile(r'"#/\$defs/(io\.k8s\.[\w.\-]+)"')


def needed(schema: dict[str, Any]) -> dict[str, Any]:
    """Every type of Kubernetes' that a schema of values refers to, and all that these refer to; strict."""
    newest = kubernetes_validate.latest_version()
    path = f"kubernetes-json-schema/v{newest}-local-strict/_definitions.json"
    known = kubernetes_validate.utils.schema_contents(path, newest)["$defs"]
    own = {name: part for name, part in schema["$defs"].items() if not name.startswith(PREFIX)}
    waiting, found = set(_NAMED.findall(json.dumps({**schema, "$defs": own}))), {}
    while waiting:
        name = waiting.pop()
        text = re.sub(r"_definitions\.json#/\$defs/", "#/$defs/", json.dumps(_bare(known[name])))
        found[name] = json.loads(text)
        waiting |= set(_NAMED.findall(text)) - found.keys()
    return dict(sorted(found.items()))


def with_types(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with Kubernetes' types as they are now."""
    own = {name: part for name, part in schema["$defs"].items() if not name.startswith(PREFIX)}
    return {**schema, "$defs": {**own, **needed(schema)}}


def _bare(part: Any) -> Any:
    match part:
        case dict():
            return {
                name: _bare(value)
                for name, value in part.items()
                if not (name.startswith("x-kubernetes") or (name == "description" and isinstance(value, str)))
            }
        case list():
            return [_bare(value) for value in part]
        case _:
            return part


if __name__ == "__main__":
    SCHEMA.write_text(json.dumps(with_types(json.loads(SCHEMA.read_text())), indent=1) + "\n")

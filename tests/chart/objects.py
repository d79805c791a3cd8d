"""Objects that the chart renders, made by the real Helm engine and parsed."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import helm_python as helm

from revisions.spec import documents

CHART = Path(__file__).parents[2] / "charts/triggerctl"
RELEASE, NAMESPACE = "acme", "automation"


@dataclass(frozen=True)
class Rendered:
    """One release as it would be installed."""

    texts: Mapping[str, str]

    @cached_property
    def objects(self) -> list[dict[str, Any]]:
        """Return every object. A key that occurs twice in one of them raises an error."""
        return [
            loaded
            for path, text in self.texts.items()
            if not path.endswith(".txt")
            for loaded in documents.load(text, path)
        ]

    @property
    def notes(self) -> str:
        [notes] = [text for path, text in self.texts.items() if path.endswith("NOTES.txt")]
        return notes

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [each for each in self.objects if each["kind"] == kind]

    def single(self, kind: str) -> dict[str, Any]:
        [single] = self.of_kind(kind)
        return single

    def pods(self) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
        """Yield (name, labels, spec) of each pod."""
        for each in self.objects:
            match each["kind"]:
                case "Deployment" | "Job":
                    template = each["spec"]["template"]
                    yield each["metadata"]["name"], template["metadata"]["labels"], template["spec"]
                case "Pod":
                    yield each["metadata"]["name"], each["metadata"]["labels"], each["spec"]

    def containers(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (pod name, container)."""
        for name, _, spec in self.pods():
            for container in spec["containers"] + spec.get("initContainers", []):
                yield name, container

    def settings(self) -> dict[str, Any]:
        """Return the settings file, parsed as the controller does."""
        [config_map] = [each for each in self.of_kind("ConfigMap") if "triggerctl.yaml" in each["data"]]
        [settings] = documents.load(config_map["data"]["triggerctl.yaml"])
        return dict(settings)


def render(values: Mapping[str, Any]) -> Rendered:
    """Render the chart, once for the same values. Raises helm.HelmError for values that the schema or the chart
    refuses."""
    return _rendered(json.dumps(values))


@cache
def _rendered(values: str) -> Rendered:
    with helm.Chart.load(CHART) as chart:
        return Rendered(chart.render(json.loads(values), name=RELEASE, namespace=NAMESPACE))


def refusal(values: Mapping[str, Any]) -> str:
    """Return the error message for wrong values."""
    try:
        render(values)
    except helm.HelmError as refused:
        return str(refused)
    raise AssertionError(f"{values} are not refused")


def merged(*values: Mapping[str, Any]) -> dict[str, Any]:
    """Merge values as several values files are merged."""
    result: dict[str, Any] = {}
    for given in values:
        for name, value in given.items():
            below = result.get(name)
            result[name] = merged(below, value) if isinstance(below, dict) and isinstance(value, Mapping) else value
    return result


def at(path: str, value: Any) -> dict[str, Any]:
    """Return values that contain one value at a path like `image.tag`."""
    for name in reversed(path.split(".")):
        value = {name: value}
    return dict(value)

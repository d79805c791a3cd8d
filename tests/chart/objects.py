"""What the chart makes of values: the objects, rendered by the real Helm engine and read as plain values."""

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
        """Every object; a key that stands twice in one is refused."""
        return [
            found
            for path, text in self.texts.items()
            if not path.endswith(".txt")
            for found in documents.load(text, path)
        ]

    @property
    def notes(self) -> str:
        [notes] = [text for path, text in self.texts.items() if path.endswith("NOTES.txt")]
        return notes

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [found for found in self.objects if found["kind"] == kind]

    def one(self, kind: str) -> dict[str, Any]:
        [found] = self.of(kind)
        return found

    def pods(self) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
        """(name, labels, spec) of each pod there will be."""
        for found in self.objects:
            match found["kind"]:
                case "Deployment" | "Job":
                    template = found["spec"]["template"]
                    yield found["metadata"]["name"], template["metadata"]["labels"], template["spec"]
                case "Pod":
                    yield found["metadata"]["name"], found["metadata"]["labels"], found["spec"]

    def containers(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """(pod's name, container) of each."""
        for name, _, spec in self.pods():
            for container in spec["containers"] + spec.get("initContainers", []):
                yield name, container

    def settings(self) -> dict[str, Any]:
        """The file of settings, read as the controller does."""
        [found] = [each for each in self.of("ConfigMap") if "triggerctl.yaml" in each["data"]]
        [read] = documents.load(found["data"]["triggerctl.yaml"])
        return dict(read)


def render(values: Mapping[str, Any]) -> Rendered:
    """Renders the same values once. Raises helm.HelmError for what the schema or the chart refuses."""
    return _rendered(json.dumps(values))


@cache
def _rendered(values: str) -> Rendered:
    with helm.Chart.load(CHART) as chart:
        return Rendered(chart.render(json.loads(values), name=RELEASE, namespace=NAMESPACE))


def refusal(values: Mapping[str, Any]) -> str:
    """What an operator is told who installs with values that are wrong."""
    try:
        render(values)
    except helm.HelmError as refused:
        return str(refused)
    raise AssertionError(f"{values} is not refused")


def merged(*values: Mapping[str, Any]) -> dict[str, Any]:
    """Values one over the other, as several values files are."""
    result: dict[str, Any] = {}
    for given in values:
        for name, value in given.items():
            below = result.get(name)
            result[name] = merged(below, value) if isinstance(below, dict) and isinstance(value, Mapping) else value
    return result


def at(path: str, value: Any) -> dict[str, Any]:
    """The values with one of them, named by its path: `image.tag`."""
    for name in reversed(path.split(".")):
        value = {name: value}
    return dict(value)

"""The dashboards as they lie in the chart, read as Grafana would: panels, queries, and what variables stand for."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from dashboards.__main__ import BOARDS, CHART
from tests.dashboards.prometheus import JOB

RATE_INTERVAL = "12s"
"""What Grafana would make of `$__rate_interval` where there is a scrape every three seconds."""


class Query(NamedTuple):
    """One line of a panel; `legend` names it."""

    board: str
    panel: str
    legend: str
    expression: str

    def asked(self, project: str) -> str:
        """As Grafana sends it, its variables filled in."""
        return filled(self.expression, project)


def filled(text: str, project: str) -> str:
    values = {"__rate_interval": RATE_INTERVAL, "job": JOB, "project": project}
    return re.sub(r"\$(\w+)", lambda found: values[found[1]], text)


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CHART / "dashboards" / f"{name}.json").read_text(encoding="utf-8"))
    return found


def queries(*names: str) -> Iterator[Query]:
    """Of these dashboards, of all where none is named."""
    for name in names or BOARDS:
        for panel in read(name)["panels"]:
            for target in panel.get("targets", []):
                yield Query(name, panel["title"], target.get("legendFormat", ""), target["expr"])


def variables(name: str) -> dict[str, str]:
    """The variables whose values are asked of Prometheus, and how."""
    return {one["name"]: one["query"] for one in read(name)["templating"]["list"] if one["type"] == "query"}


def selectors(expression: str) -> list[str]:
    """What an expression reads."""
    return re.findall(r"triggerctl_\w+(?:\{[^}]*\})?", expression)

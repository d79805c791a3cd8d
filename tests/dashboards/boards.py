"""Dashboards of the chart, read as Grafana does: panels, queries and variables."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from dashboards.__main__ import BOARDS, CHART
from tests.dashboards.prometheus import JOB

RATE_INTERVAL = "12s"
"""Grafana's value of `$__rate_interval` for a scrape interval of three seconds."""


class Query(NamedTuple):
    """Query of one line in a panel; `legend` names the line."""

    board: str
    panel: str
    legend: str
    expression: str

    def for_project(self, project: str) -> str:
        """Return the query as Grafana sends it, with the variables filled in."""
        return fill_variables(self.expression, project)


def fill_variables(text: str, project: str) -> str:
    values = {"__rate_interval": RATE_INTERVAL, "job": JOB, "project": project}
    return re.sub(r"\$(\w+)", lambda match: values[match[1]], text)


def read_board(name: str) -> dict[str, Any]:
    board: dict[str, Any] = json.loads((CHART / "dashboards" / f"{name}.json").read_text(encoding="utf-8"))
    return board


def queries(*names: str) -> Iterator[Query]:
    """Yield the queries of the named dashboards, or of all."""
    for name in names or BOARDS:
        for panel in read_board(name)["panels"]:
            for target in panel.get("targets", []):
                yield Query(name, panel["title"], target.get("legendFormat", ""), target["expr"])


def variables(name: str) -> dict[str, str]:
    """Return the variables whose values Prometheus provides, with their queries."""
    return {item["name"]: item["query"] for item in read_board(name)["templating"]["list"] if item["type"] == "query"}


def selectors(expression: str) -> list[str]:
    """Return the metric selectors in an expression."""
    return re.findall(r"triggerctl_\w+(?:\{[^}]*\})?", expression)

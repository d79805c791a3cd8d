"""One trigger, seen through its project: metrics bear no trigger's name, for there may be 100,000."""

import re
from pathlib import Path

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.builders.timeseries import Panel

from dashboards import late
from dashboards.panels import HERE, choice, empty, graph, note, row, typed, way

PROJECT = ', project="$project"'
FROZEN = ', project=~"$project|[(]everything[)]"'

RUNBOOK = Path(__file__).parents[1] / "docs" / "runbooks" / "fires-late.md"


def why_late() -> str:
    """The table of the runbook: what the panels show, and why something is late then."""
    [table] = re.findall(r"(?:^\|.*\n)+", RUNBOOK.read_text(encoding="utf-8"), re.MULTILINE)
    return str(table)


def board() -> Dashboard:
    made = empty(
        "trigger", "one trigger", "Why a trigger is late: choose its project, and read the panels with the table."
    )
    # a project without active triggers has no lateness, so it cannot be chosen
    projects = f"label_values(triggerctl_late_triggers{{{HERE}}}, project)"
    made = made.with_variable(choice("project", "Project", projects))
    made = made.with_variable(typed("address", "Controller's address", "http://127.0.0.1:8080"))
    made = made.link(way("Its triggers, on the controller's page", "${address}/?project=${project}"))
    made = row(made, "What keeps it?", late.causes(PROJECT), late.since(PROJECT), late.frozen(FROZEN), late.asked())
    made = row(made, "Or what comes after?", late.transactions(), late.queue(), _budget())
    return made.with_panel(note("Why is it late?", why_late(), height=11))


def _budget() -> Panel:
    return graph(
        "Budget used",
        "percentunit",
        {"highest of the project": f"max(triggerctl_budget_used_ratio{{{HERE}{PROJECT}}})"},
        "At 100 % the trigger rests until its period ends.",
        width=24,
    )

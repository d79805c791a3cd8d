"""Dashboard for finding why one trigger is late. It shows the trigger's project: metrics have no label per trigger."""

import re
from pathlib import Path

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.builders.timeseries import Panel

from dashboards import late
from dashboards.panels import HERE, choice, empty, graph, link, note, row, typed

PROJECT = ', project="$project"'
FROZEN = ', project=~"$project|[(]everything[)]"'

RUNBOOK = Path(__file__).parents[1] / "docs" / "runbooks" / "fires-late.md"


def why_late() -> str:
    """Return the runbook's table of causes, as Markdown."""
    [table] = re.findall(r"(?:^\|.*\n)+", RUNBOOK.read_text(encoding="utf-8"), re.MULTILINE)
    return str(table)


def board() -> Dashboard:
    dashboard = empty(
        "trigger", "one trigger", "Why a trigger is late: choose its project, and read the panels with the table."
    )
    # a project without active triggers has no lateness, so it cannot be chosen
    projects = f"label_values(triggerctl_late_triggers{{{HERE}}}, project)"
    dashboard = dashboard.with_variable(choice("project", "Project", projects))
    dashboard = dashboard.with_variable(typed("address", "Controller's address", "http://127.0.0.1:8080"))
    dashboard = dashboard.link(link("Its triggers, on the controller's page", "${address}/?project=${project}"))
    dashboard = row(
        dashboard, "What keeps it?", late.causes(PROJECT), late.due_since(PROJECT), late.frozen(FROZEN), late.demand()
    )
    dashboard = row(dashboard, "Or what comes after?", late.transactions(), late.queue(), _budget())
    return dashboard.with_panel(note("Why is it late?", why_late(), height=11))


def _budget() -> Panel:
    return graph(
        "Budget used",
        "percentunit",
        {"highest of the project": f"max(triggerctl_budget_used_ratio{{{HERE}{PROJECT}}})"},
        "At 100 % the trigger rests until its period ends.",
        width=24,
    )

"""Dashboard of a whole installation at a glance."""

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.builders.stat import Panel as Number
from grafana_foundation_sdk.builders.timeseries import Panel as Graph

from dashboards import late, work
from dashboards.panels import HERE, RATE, empty, graph, number, quantiles, row


def board() -> Dashboard:
    dashboard = empty("fleet", "fleet", "All of an installation: is it well, and if not, where to look.")
    dashboard = row(dashboard, "Is all well?", *_numbers())
    dashboard = row(
        dashboard,
        "Do triggers fire in time?",
        late.causes(),
        late.due_since(),
        late.demand(),
        late.frozen(),
        *_lateness(),
    )
    dashboard = row(dashboard, "What becomes of it?", work.ended(), work.skipped(), late.queue(), work.backlog())
    return row(dashboard, "Triggers", *_triggers())


def _numbers() -> list[Number]:
    late_now = f'max by (project, cause) (triggerctl_late_triggers{{{HERE}, cause!="freeze"}})'
    failed = f'max(triggerctl_triggers_deactivated{{{HERE}, reason="failures"}})'
    return [
        number("Active triggers", f"max(triggerctl_triggers_active{{{HERE}}})", "In all projects."),
        number("Replicas", f"max(triggerctl_replicas{{{HERE}}})", "Processes that run the loop."),
        number(
            "Last resync",
            f"min(triggerctl_resync_age_seconds{{{HERE}}})",
            "Time since a replica last compared its alarms with the database.",
            unit="s",
            bad_from=300,
        ),
        number(
            "Late", f"sum({late_now})", "Due and undecided triggers without frozen ones. A few for a moment are normal."
        ),
        number(
            "Cannot be decided",
            f"max(triggerctl_quarantined{{{HERE}}})",
            "In quarantine: `triggerctl doctor` names them.",
            bad_from=1,
        ),
        number("Stopped by failures", failed, "Deactivated because their runs failed.", bad_from=1),
    ]


def _lateness() -> list[Graph]:
    by_project = f"max by (project) (triggerctl_late_seconds{{{HERE}}})"
    return [
        graph(
            "How late runs are made",
            "s",
            quantiles("triggerctl_fire_lateness_seconds"),
            "From the scheduled instant to the committed run, without runs of a catch-up.",
        ),
        graph(
            "Due since, by project",
            "s",
            {"{{project}}": f"topk(10, {by_project})"},
            "The ten projects whose triggers have been due the longest, whatever the cause.",
        ),
    ]


def _triggers() -> list[Graph]:
    budgets = f"max by (project) (triggerctl_budget_used_ratio{{{HERE}}})"
    return [
        graph(
            "Deactivated, by reason",
            "short",
            {"{{reason}}": f"max by (reason) (triggerctl_triggers_deactivated{{{HERE}}})"},
            "Deactivated triggers. Only `failures` is a fault; `budget` ends by itself with the period.",
        ),
        graph(
            "Budget used, by project",
            "percentunit",
            {"{{project}}": f"topk(10, {budgets})"},
            "The highest share of a trigger's budget that is spent or reserved, updated with each scan.",
        ),
        graph(
            "What the scanner mended",
            "short",
            {"{{kind}}": f"sum by (kind) (increase(triggerctl_findings_total{{{HERE}}}[{RATE}]))"},
            "A finding that returns is a fault; see docs/operations.md.",
        ),
        graph(
            "Deadlines missed",
            "short",
            {"{{kind}}": f"sum by (kind) (increase(triggerctl_deadlines_missed_total{{{HERE}}}[{RATE}]))"},
            "Deadlines of `expect` by which no run had succeeded; `triggerctl deadlines T` lists those of a trigger.",
        ),
        graph(
            "Requests refused",
            "reqps",
            {"{{reason}}": f"sum by (reason) (rate(triggerctl_access_refused_total{{{HERE}}}[{RATE}]))"},
            "Requests that API and web page refused for lack of valid credentials or rights, per second.",
        ),
    ]

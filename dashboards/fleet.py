"""All of one installation at a glance."""

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.builders.stat import Panel as Number
from grafana_foundation_sdk.builders.timeseries import Panel as Graph

from dashboards import late, work
from dashboards.panels import HERE, RATE, empty, graph, number, quantiles, row


def board() -> Dashboard:
    made = empty("fleet", "fleet", "All of an installation: is it well, and if not, where to look.")
    made = row(made, "Is all well?", *_numbers())
    made = row(
        made, "Do triggers fire in time?", late.causes(), late.since(), late.asked(), late.frozen(), *_lateness()
    )
    made = row(made, "What becomes of it?", work.ended(), work.skipped(), late.queue(), work.backlog())
    return row(made, "Triggers", *_triggers())


def _numbers() -> list[Number]:
    late_now = f'max by (project, cause) (triggerctl_late_triggers{{{HERE}, cause!="freeze"}})'
    failed = f'max(triggerctl_triggers_deactivated{{{HERE}, reason="failures"}})'
    return [
        number("Active triggers", f"max(triggerctl_triggers_active{{{HERE}}})", "Of all projects together."),
        number("Replicas", f"max(triggerctl_replicas{{{HERE}}})", "Processes that run the loop."),
        number(
            "Last resync",
            f"min(triggerctl_resync_age_seconds{{{HERE}}})",
            "How long ago any replica compared its alarms with the database.",
            unit="s",
            bad_from=300,
        ),
        number("Late", f"sum({late_now})", "Due and undecided, but for frozen ones; a few are for a moment."),
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
            "From the scheduled instant to the committed run, but for what backlogs come to.",
        ),
        graph(
            "Due since, by project",
            "s",
            {"{{project}}": f"topk(10, {by_project})"},
            "The ten projects whose triggers wait the longest, for whatever cause.",
        ),
    ]


def _triggers() -> list[Graph]:
    budgets = f"max by (project) (triggerctl_budget_used_ratio{{{HERE}}})"
    return [
        graph(
            "Deactivated, by reason",
            "short",
            {"{{reason}}": f"max by (reason) (triggerctl_triggers_deactivated{{{HERE}}})"},
            "Triggers that rest. Only failures are a fault; budget ends by itself with the period.",
        ),
        graph(
            "Budget used, by project",
            "percentunit",
            {"{{project}}": f"topk(10, {budgets})"},
            "The highest share of any trigger's budget that is spent or set aside; looked at with each scan.",
        ),
        graph(
            "What the scanner mended",
            "short",
            {"{{kind}}": f"sum by (kind) (increase(triggerctl_findings_total{{{HERE}}}[{RATE}]))"},
            "One that comes back is a fault; see docs/operations.md.",
        ),
        graph(
            "Deadlines missed",
            "short",
            {"{{kind}}": f"sum by (kind) (increase(triggerctl_deadlines_missed_total{{{HERE}}}[{RATE}]))"},
            "Of `expect`, at which no run had succeeded: `triggerctl deadlines T` lists those of a trigger.",
        ),
        graph(
            "Requests refused",
            "reqps",
            {"{{reason}}": f"sum by (reason) (rate(triggerctl_access_refused_total{{{HERE}}}[{RATE}]))"},
            "By the guard of API and web page.",
        ),
    ]

"""Prometheus' alert rules: faults, not skips (O-03). Each leads to a page of `docs/runbooks`."""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML

from dashboards.runs import FAILED

RUNBOOKS = "docs/runbooks"
"""Where the pages lie; the chart puts another address in its place."""


@dataclass(frozen=True, slots=True)
class Alert:
    """`expr` for as long as `lasts` is a fault; `{{ }}` are Prometheus' own templates."""

    name: str
    expr: str
    lasts: str
    severity: str
    summary: str
    description: str

    @property
    def page(self) -> str:
        """Its runbook's file: `TriggerctlFiresLate` is `fires-late.md`."""
        words = re.findall(r"[A-Z][a-z]+", self.name.removeprefix("Triggerctl"))
        return "-".join(words).lower() + ".md"


def _setting(name: str) -> str:
    return f'max by (job) (triggerctl_setting{{name="{name}"}})'


_MISSED = "max by (job) (triggerctl_catchup_oldest_seconds"
_PENDING = 'max by (job) (triggerctl_queue_depth{state="pending"}'

ALERTS = (
    Alert(
        "TriggerctlNotReconciling",
        f"min by (job) (triggerctl_resync_age_seconds) > clamp_min(3 * {_setting('resync_interval')}, 300)"
        " or absent(triggerctl_resync_age_seconds)",
        "2m",
        "critical",
        "No replica reconciles",
        "For minutes no replica compared its alarms with the database, or none can be scraped: nothing is scheduled.",
    ),
    Alert(
        "TriggerctlFiresLate",
        'max by (job) (triggerctl_late_seconds{cause=~"rate|undecided"}) > 60'
        " or histogram_quantile(0.95, sum by (job, le) (rate(triggerctl_fire_lateness_seconds_bucket[10m]))) > 60",
        "5m",
        "warning",
        "Triggers fire more than a minute late",
        "By {{ $value | humanizeDuration }}. The dashboard `triggerctl: one trigger` tells the cause.",
    ),
    Alert(
        "TriggerctlBacklogGrowing",
        f"{_MISSED}) - {_MISSED} offset 30m) > 900 and {_MISSED} offset 30m) > 0"
        f" or {_PENDING}) > {_PENDING} offset 30m) and max by (job) (triggerctl_queue_oldest_seconds) > 600",
        "15m",
        "warning",
        "More waits than half an hour ago, and the oldest does not get done",
        "What is to be caught up, or runs that wait for a worker, come faster than they go.",
    ),
    Alert(
        "TriggerctlRunsFail",
        f"sum by (job) (rate(triggerctl_runs_total{{{FAILED}}}[15m]))"
        " / sum by (job) (rate(triggerctl_runs_total[15m])) > 0.25"
        f" and sum by (job) (increase(triggerctl_runs_total{{{FAILED}}}[15m])) > 5",
        "5m",
        "warning",
        "{{ $value | humanizePercentage }} of the runs fail",
        "For good, after their retries. Five in a row deactivate a trigger.",
    ),
    Alert(
        "TriggerctlTriggersDeactivated",
        'max by (job) (triggerctl_triggers_deactivated{reason="failures"}) > 0',
        "0s",
        "warning",
        "{{ $value }} triggers were deactivated after failures",
        "They stay so until somebody activates, deploys or deletes them.",
    ),
    Alert(
        "TriggerctlAskedRateHigh",
        f"max by (job) (triggerctl_asked_rate) > 0.7 * ({_setting('execution_qps')} > 0)",
        "15m",
        "warning",
        "The schedules ask for more than 70 % of execution_qps",
        "{{ $value | humanize }} starts a second: a burst makes triggers late and is not made good any more.",
    ),
    Alert(
        "TriggerctlListenerDown",
        'triggerctl_listener_connected == 0 and on (job, instance) triggerctl_build_info{database="postgresql"}',
        "2m",
        "warning",
        "{{ $labels.instance }} does not hear the database's notices",
        "Changes are found by polling, runs a second later.",
    ),
    Alert(
        "TriggerctlBudgetNearEnd",
        "max by (job, project) (triggerctl_budget_used_ratio) > 0.9",
        "0s",
        "warning",
        "A trigger of {{ $labels.project }} has used {{ $value | humanizePercentage }} of its budget",
        "At 100 % it rests until its period ends.",
    ),
    Alert(
        "TriggerctlDeadlineMissed",
        "sum by (job, kind) (increase(triggerctl_deadlines_missed_total[15m])) > 0",
        "0s",
        "warning",
        "A deadline ({{ $labels.kind }}) came, and no run had succeeded",
        "The log names the trigger, under `trigger.deadline_missed`.",
    ),
    Alert(
        "TriggerctlQuarantined",
        "max by (job) (triggerctl_quarantined) > 0",
        "15m",
        "warning",
        "{{ $value }} triggers cannot be decided",
        "They are tried again, ever more rarely; `triggerctl doctor` names them.",
    ),
    Alert(
        "TriggerctlPassesFail",
        "sum by (job, part) (increase(triggerctl_pass_failures_total[10m])) > 5",
        "5m",
        "warning",
        "The {{ $labels.part }} fails again and again",
        "The log says why, under `{{ $labels.part }}.failed`.",
    ),
)


def rules(alerts: Sequence[Alert]) -> str:
    """As a file of Prometheus' rules."""
    group: dict[str, Any] = {"name": "triggerctl", "rules": [_rule(alert) for alert in alerts]}
    yaml, text = YAML(), io.StringIO()
    yaml.width = 120
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.dump({"groups": [group]}, text)
    return text.getvalue()


def _rule(alert: Alert) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expr,
        "for": alert.lasts,
        "labels": {"severity": alert.severity},
        "annotations": {
            "summary": alert.summary,
            "description": alert.description,
            "runbook_url": f"{RUNBOOKS}/{alert.page}",
        },
    }

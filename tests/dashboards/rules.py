"""Cases for Prometheus' rule tests: for each alert, series that make it fire and series that nearly do."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dashboards.alerts import ALERTS, RUNBOOKS, Alert

JOB = {"job": "triggerctl"}


class RuleCase(NamedTuple):
    """Series and the one alert that fires at a minute, if any, with its labels and the value in its text.

    Values are one per minute, in promtool's notation. Unless a case has series about the loop, the loop resyncs.
    """

    name: str
    series: dict[str, str]
    minute: int
    fires: str = ""
    labels: Mapping[str, str] = JOB
    shown: str = ""


def series(metric: str, /, **labels: str) -> str:
    """Return the name of a series of one replica."""
    all_labels = {"job": "triggerctl", "instance": "a:8080", **labels}
    return f"triggerctl_{metric}{{{', '.join(f'{key}={value!r}' for key, value in all_labels.items())}}}".replace(
        "'", '"'
    )


def _runs(outcome: str, values: str) -> dict[str, str]:
    return {series("runs_total", outcome=outcome, source="schedule"): values}


def _late(seconds: str, cause: str) -> dict[str, str]:
    return {series("late_seconds", project="acme", cause=cause): seconds}


def _buckets(within_a_minute: str, all: str) -> dict[str, str]:
    lateness = {le: series("fire_lateness_seconds_bucket", le=le) for le in ("60.0", "300.0", "+Inf")}
    return {lateness["60.0"]: within_a_minute, lateness["300.0"]: all, lateness["+Inf"]: all}


AGE, INTERVAL = series("resync_age_seconds"), series("setting", name="resync_interval")
LATE, GROWS, FAIL = "TriggerctlFiresLate", "TriggerctlBacklogGrowing", "TriggerctlRunsFail"
RULE_CASES = (
    RuleCase(
        "everything works",
        _late("0x30", "undecided")
        | _runs("succeeded", "0+10x30")
        | _buckets("0+9x30", "0+9x30")
        | {series("quarantined"): "0x30", series("deadlines_missed_total", kind="within"): "0x30"},
        30,
    ),
    RuleCase(
        "no replica resyncs",
        {AGE: "0+60x20", INTERVAL: "30x20"},
        10,
        "TriggerctlNotReconciling",
    ),
    RuleCase(
        "one of two replicas resyncs",
        {AGE: "0+60x20", AGE.replace("a:8080", "b:8080"): "15x20", INTERVAL: "30x20"},
        10,
    ),
    RuleCase(
        "the installation of another namespace resyncs",
        {
            series("resync_age_seconds", namespace="dead"): "0+60x20",
            series("setting", namespace="dead", name="resync_interval"): "30x20",
            series("resync_age_seconds", namespace="alive"): "15x20",
            series("setting", namespace="alive", name="resync_interval"): "30x20",
        },
        10,
        "TriggerctlNotReconciling",
        JOB | {"namespace": "dead"},
    ),
    RuleCase("no replica has resynced for a short time", {AGE: "0+60x20", INTERVAL: "30x20"}, 7),
    RuleCase("the resync interval is long", {AGE: "0+60x20", INTERVAL: "600x20"}, 20),
    RuleCase("nothing is scraped", {AGE: "_x20"}, 5, "TriggerctlNotReconciling", {}),
    RuleCase("late for lack of rate tokens", _late("0+30x30", "rate"), 10, LATE, shown="5m 0s"),
    RuleCase("late because undecided", _late("0+30x30", "undecided"), 10, LATE, shown="5m 0s"),
    RuleCase("late because of a freeze", _late("0+30x30", "freeze"), 30),
    RuleCase("late again and again, each time for a moment", _late("0 70 0 70 0 70 0 70 0 70 0", "undecided"), 9),
    RuleCase("one start in ten is late", _buckets("0+9x30", "0+10x30"), 30, LATE, shown="3m 0s"),
    RuleCase("one start in a hundred is late", _buckets("0+99x30", "0+100x30"), 30),
    RuleCase(
        "missed occurrences are not caught up",
        {series("catchup_oldest_seconds"): "60+60x90"},
        60,
        GROWS,
    ),
    RuleCase("missed occurrences are caught up", {series("catchup_oldest_seconds"): "0x30 3600-60x60"}, 60),
    RuleCase("missed occurrences are caught up slowly", {series("catchup_oldest_seconds"): "3600+20x90"}, 60),
    RuleCase("missed occurrences are not caught up for a while", {series("catchup_oldest_seconds"): "60+60x90"}, 40),
    RuleCase("an occurrence was missed just now", {series("catchup_oldest_seconds"): "0x30 3600x60"}, 50),
    RuleCase(
        "runs are created faster than they are started",
        {series("queue_depth", state="pending"): "0+5x90", series("queue_oldest_seconds"): "0+30x90"},
        60,
        GROWS,
    ),
    RuleCase(
        "many runs are created and started",
        {series("queue_depth", state="pending"): "0+5x90", series("queue_oldest_seconds"): "20x90"},
        60,
    ),
    RuleCase(
        "the queue grows, but no run waits for long",
        {series("queue_depth", state="pending"): "0+5x90", series("queue_oldest_seconds"): "500x90"},
        60,
    ),
    RuleCase("half of the runs fail", _runs("failed", "0+5x30") | _runs("succeeded", "0+5x30"), 30, FAIL, shown="50%"),
    RuleCase(
        "half of the runs time out", _runs("timed_out", "0+5x30") | _runs("succeeded", "0+5x30"), 30, FAIL, shown="50%"
    ),
    RuleCase("one run in ten fails", _runs("failed", "0+1x30") | _runs("succeeded", "0+9x30"), 30),
    RuleCase("a few runs in an hour fail", _runs("failed", "0x10 4x20") | _runs("succeeded", "0x30"), 20),
    RuleCase(
        "several runs fail at the same time",
        _runs("failed", "0x10 8x20") | _runs("succeeded", "0x30"),
        18,
        FAIL,
        shown="100%",
    ),
    RuleCase("half of the runs fail for a while", _runs("failed", "0+5x30") | _runs("succeeded", "0+5x30"), 5),
    RuleCase("people cancel runs", _runs("cancelled", "0+5x30") | _runs("succeeded", "0+5x30"), 30),
    RuleCase(
        "occurrences are skipped",
        {series("skips_total", reason=reason): "0+50x30" for reason in ("concurrency", "missed", "rate", "budget")},
        30,
    ),
    RuleCase(
        "triggers stopped after failures",
        {series("triggers_deactivated", reason="failures"): "2x10"},
        5,
        "TriggerctlTriggersDeactivated",
        shown="2",
    ),
    RuleCase(
        "api and worker report the same database",
        {
            series("triggers_deactivated", instance=name, reason="failures"): "2x10"
            for name in ("api:8080", "worker:8080")
        },
        5,
        "TriggerctlTriggersDeactivated",
        shown="2",
    ),
    RuleCase(
        "triggers are inactive for other reasons",
        {series("triggers_deactivated", reason=why): "2x10" for why in ("budget", "by_hand", "completed")}
        | {series("triggers_deactivated", reason="failures"): "0x10"},
        10,
    ),
    RuleCase(
        "the requested rate is near the limit",
        {series("asked_rate"): "7.5x30", series("setting", name="execution_qps"): "10x30"},
        20,
        "TriggerctlAskedRateHigh",
        shown="7.5",
    ),
    RuleCase(
        "the requested rate is below the threshold",
        {series("asked_rate"): "6.9x30", series("setting", name="execution_qps"): "10x30"},
        30,
    ),
    RuleCase(
        "the requested rate is near the limit for a while",
        {series("asked_rate"): "7.5x30", series("setting", name="execution_qps"): "10x30"},
        14,
    ),
    RuleCase(
        "there is no rate limit", {series("asked_rate"): "75x30", series("setting", name="execution_qps"): "0x30"}, 30
    ),
    RuleCase(
        "one replica has no listener",
        {
            series("listener_connected"): "0x10",
            series("build_info", database="postgresql"): "1x10",
            series("listener_connected", instance="b:8080"): "1x10",
            series("build_info", instance="b:8080", database="postgresql"): "1x10",
        },
        5,
        "TriggerctlListenerDown",
        JOB | {"instance": "a:8080"},
    ),
    RuleCase(
        "a listener reconnects",
        {series("listener_connected"): "0x10", series("build_info", database="postgresql"): "1x10"},
        1,
    ),
    RuleCase(
        "SQLite has no notifications",
        {series("listener_connected"): "0x10", series("build_info", database="sqlite"): "1x10"},
        10,
    ),
    RuleCase(
        "a budget is nearly used",
        {
            series("budget_used_ratio", project="acme"): "0.95x10",
            series("budget_used_ratio", project="other"): "0.85x10",
        },
        5,
        "TriggerctlBudgetNearEnd",
        JOB | {"project": "acme"},
        "95%",
    ),
    RuleCase("a trigger cannot be decided", {series("quarantined"): "1x30"}, 20, "TriggerctlQuarantined", shown="1"),
    RuleCase(
        "a deadline was missed",
        {series("deadlines_missed_total", kind="within"): "0x5 1x30"},
        10,
        "TriggerctlDeadlineMissed",
        JOB | {"kind": "within"},
    ),
    RuleCase("deadlines were missed long ago", {series("deadlines_missed_total", kind="within"): "3x60"}, 30),
    RuleCase("a trigger could not be decided for a while", {series("quarantined"): "1x10 0x20"}, 10),
    RuleCase(
        "passes of the runner fail repeatedly",
        {series("pass_failures_total", part="runner"): "0+10x20", series("pass_failures_total", part="loop"): "0x20"},
        15,
        "TriggerctlPassesFail",
        JOB | {"part": "runner"},
    ),
    RuleCase("some passes failed", {series("pass_failures_total", part="loop"): "0x5 4x20"}, 14),
    RuleCase(
        "several passes fail at the same time",
        {series("pass_failures_total", part="loop"): "0x5 8x20"},
        14,
        "TriggerctlPassesFail",
        JOB | {"part": "loop"},
    ),
    RuleCase("passes fail for a while", {series("pass_failures_total", part="loop"): "0+10x20"}, 4),
)


def unit_tests(rules: str, cases: Sequence[RuleCase] = RULE_CASES) -> dict[str, Any]:
    """Return the input of `promtool test rules`. Every case checks all alerts, so that no other one fires."""
    return {"rule_files": [rules], "evaluation_interval": "1m", "tests": [_test(case) for case in cases]}


def _test(case: RuleCase) -> dict[str, Any]:
    has_loop = any("resync_age_seconds" in name for name in case.series)
    loop = {} if has_loop else {AGE: "15x120", INTERVAL: "30x120"}
    return {
        "name": case.name,
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in (case.series | loop).items()],
        "alert_rule_test": [
            {
                "eval_time": f"{case.minute}m",
                "alertname": alert.name,
                "exp_alerts": [_fired(alert, case)] if alert.name == case.fires else [],
            }
            for alert in ALERTS
        ],
    }


def _fired(alert: Alert, case: RuleCase) -> dict[str, Any]:
    def fill(text: str) -> str:
        text = re.sub(r"{{ \$labels\.(\w+) }}", lambda match: case.labels[match[1]], text)
        return re.sub(r"{{ \$value.*? }}", case.shown, text)

    texts = {"summary": fill(alert.summary), "description": fill(alert.description)}
    return {
        "exp_labels": {**case.labels, "severity": alert.severity},
        "exp_annotations": texts | {"runbook_url": f"{RUNBOOKS}/{alert.page}"},
    }

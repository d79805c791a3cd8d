"""Staged series for Prometheus' own rule tests: each alert, what makes it fire, and what nearly does."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dashboards.alerts import ALERTS, RUNBOOKS, Alert

JOB = {"job": "triggerctl"}


class Staged(NamedTuple):
    """Series (their values, one a minute, in promtool's notation), and the one alert that fires at a minute, if any:
    with which labels, and how its words show the value. Where nothing is said of the loop it resyncs.
    """

    about: str
    series: dict[str, str]
    minute: int
    fires: str = ""
    labels: Mapping[str, str] = JOB
    shown: str = ""


def one(metric: str, /, **labels: str) -> str:
    """A series of one replica."""
    said = {"job": "triggerctl", "instance": "a:8080", **labels}
    return f"triggerctl_{metric}{{{', '.join(f'{key}={value!r}' for key, value in said.items())}}}".replace("'", '"')


def _runs(outcome: str, values: str) -> dict[str, str]:
    return {one("runs_total", outcome=outcome, source="schedule"): values}


def _late(seconds: str, cause: str) -> dict[str, str]:
    return {one("late_seconds", project="acme", cause=cause): seconds}


def _buckets(within: str, all: str) -> dict[str, str]:
    lateness = {le: one("fire_lateness_seconds_bucket", le=le) for le in ("60.0", "300.0", "+Inf")}
    return {lateness["60.0"]: within, lateness["300.0"]: all, lateness["+Inf"]: all}


AGE, INTERVAL = one("resync_age_seconds"), one("setting", name="resync_interval")
LATE, GROWS, FAIL = "TriggerctlFiresLate", "TriggerctlBacklogGrowing", "TriggerctlRunsFail"
STAGED = (
    Staged(
        "all is well",
        _late("0x30", "undecided")
        | _runs("succeeded", "0+10x30")
        | _buckets("0+9x30", "0+9x30")
        | {one("quarantined"): "0x30", one("deadlines_missed_total", kind="within"): "0x30"},
        30,
    ),
    Staged(
        "no replica resyncs",
        {AGE: "0+60x20", INTERVAL: "30x20"},
        10,
        "TriggerctlNotReconciling",
    ),
    Staged(
        "one of two replicas resyncs",
        {AGE: "0+60x20", AGE.replace("a:8080", "b:8080"): "15x20", INTERVAL: "30x20"},
        10,
    ),
    Staged(
        "the installation of another namespace resyncs",
        {
            one("resync_age_seconds", namespace="dead"): "0+60x20",
            one("setting", namespace="dead", name="resync_interval"): "30x20",
            one("resync_age_seconds", namespace="alive"): "15x20",
            one("setting", namespace="alive", name="resync_interval"): "30x20",
        },
        10,
        "TriggerctlNotReconciling",
        JOB | {"namespace": "dead"},
    ),
    Staged("no replica has resynced for a moment", {AGE: "0+60x20", INTERVAL: "30x20"}, 7),
    Staged("a long interval is no standstill", {AGE: "0+60x20", INTERVAL: "600x20"}, 20),
    Staged("nothing is scraped", {AGE: "_x20"}, 5, "TriggerctlNotReconciling", {}),
    Staged("due for long, without tokens", _late("0+30x30", "rate"), 10, LATE, shown="5m 0s"),
    Staged("due for long, and nobody came", _late("0+30x30", "undecided"), 10, LATE, shown="5m 0s"),
    Staged("due for long, but frozen", _late("0+30x30", "freeze"), 30),
    Staged("due for a moment", _late("0 70 0 70 0 70 0 70 0 70 0", "undecided"), 9),
    Staged("one start in ten is late", _buckets("0+9x30", "0+10x30"), 30, LATE, shown="3m 0s"),
    Staged("one start in a hundred is late", _buckets("0+99x30", "0+100x30"), 30),
    Staged(
        "what is missed is not caught up",
        {one("catchup_oldest_seconds"): "60+60x90"},
        60,
        GROWS,
    ),
    Staged("what is missed is caught up", {one("catchup_oldest_seconds"): "0x30 3600-60x60"}, 60),
    Staged("what is missed is caught up slowly", {one("catchup_oldest_seconds"): "3600+20x90"}, 60),
    Staged("what is missed is not caught up for a while", {one("catchup_oldest_seconds"): "60+60x90"}, 40),
    Staged("something was missed just now", {one("catchup_oldest_seconds"): "0x30 3600x60"}, 50),
    Staged(
        "runs come faster than they go",
        {one("queue_depth", state="pending"): "0+5x90", one("queue_oldest_seconds"): "0+30x90"},
        60,
        GROWS,
    ),
    Staged(
        "many runs come, and go",
        {one("queue_depth", state="pending"): "0+5x90", one("queue_oldest_seconds"): "20x90"},
        60,
    ),
    Staged(
        "runs come faster than they go, but none waits for long",
        {one("queue_depth", state="pending"): "0+5x90", one("queue_oldest_seconds"): "500x90"},
        60,
    ),
    Staged("half of the runs fail", _runs("failed", "0+5x30") | _runs("succeeded", "0+5x30"), 30, FAIL, shown="50%"),
    Staged("half of them time out", _runs("timed_out", "0+5x30") | _runs("succeeded", "0+5x30"), 30, FAIL, shown="50%"),
    Staged("one in ten fails", _runs("failed", "0+1x30") | _runs("succeeded", "0+9x30"), 30),
    Staged("the few runs of an hour fail", _runs("failed", "0x10 4x20") | _runs("succeeded", "0x30"), 20),
    Staged(
        "some runs fail, all at once", _runs("failed", "0x10 8x20") | _runs("succeeded", "0x30"), 18, FAIL, shown="100%"
    ),
    Staged("half of the runs fail for a while", _runs("failed", "0+5x30") | _runs("succeeded", "0+5x30"), 5),
    Staged("people cancel runs", _runs("cancelled", "0+5x30") | _runs("succeeded", "0+5x30"), 30),
    Staged(
        "occurrences are skipped",
        {one("skips_total", reason=reason): "0+50x30" for reason in ("concurrency", "missed", "rate", "budget")},
        30,
    ),
    Staged(
        "triggers stopped after failures",
        {one("triggers_deactivated", reason="failures"): "2x10"},
        5,
        "TriggerctlTriggersDeactivated",
        shown="2",
    ),
    Staged(
        "api and worker tell of one database",
        {one("triggers_deactivated", instance=name, reason="failures"): "2x10" for name in ("api:8080", "worker:8080")},
        5,
        "TriggerctlTriggersDeactivated",
        shown="2",
    ),
    Staged(
        "triggers rest for other reasons",
        {one("triggers_deactivated", reason=why): "2x10" for why in ("budget", "by_hand", "completed")}
        | {one("triggers_deactivated", reason="failures"): "0x10"},
        10,
    ),
    Staged(
        "more is asked for than is good",
        {one("asked_rate"): "7.5x30", one("setting", name="execution_qps"): "10x30"},
        20,
        "TriggerctlAskedRateHigh",
        shown="7.5",
    ),
    Staged(
        "as much is asked for as is good",
        {one("asked_rate"): "6.9x30", one("setting", name="execution_qps"): "10x30"},
        30,
    ),
    Staged(
        "more is asked for than is good, for a while",
        {one("asked_rate"): "7.5x30", one("setting", name="execution_qps"): "10x30"},
        14,
    ),
    Staged("there is no limit", {one("asked_rate"): "75x30", one("setting", name="execution_qps"): "0x30"}, 30),
    Staged(
        "one replica hears nothing",
        {
            one("listener_connected"): "0x10",
            one("build_info", database="postgresql"): "1x10",
            one("listener_connected", instance="b:8080"): "1x10",
            one("build_info", instance="b:8080", database="postgresql"): "1x10",
        },
        5,
        "TriggerctlListenerDown",
        JOB | {"instance": "a:8080"},
    ),
    Staged(
        "a listener connects again",
        {one("listener_connected"): "0x10", one("build_info", database="postgresql"): "1x10"},
        1,
    ),
    Staged(
        "SQLite has no notices", {one("listener_connected"): "0x10", one("build_info", database="sqlite"): "1x10"}, 10
    ),
    Staged(
        "a budget is nearly used",
        {
            one("budget_used_ratio", project="acme"): "0.95x10",
            one("budget_used_ratio", project="other"): "0.85x10",
        },
        5,
        "TriggerctlBudgetNearEnd",
        JOB | {"project": "acme"},
        "95%",
    ),
    Staged("a trigger cannot be decided", {one("quarantined"): "1x30"}, 20, "TriggerctlQuarantined", shown="1"),
    Staged(
        "a deadline was missed",
        {one("deadlines_missed_total", kind="within"): "0x5 1x30"},
        10,
        "TriggerctlDeadlineMissed",
        JOB | {"kind": "within"},
    ),
    Staged("deadlines were missed long ago", {one("deadlines_missed_total", kind="within"): "3x60"}, 30),
    Staged("a trigger could not be decided for a while", {one("quarantined"): "1x10 0x20"}, 10),
    Staged(
        "the runner fails again and again",
        {one("pass_failures_total", part="runner"): "0+10x20", one("pass_failures_total", part="loop"): "0x20"},
        15,
        "TriggerctlPassesFail",
        JOB | {"part": "runner"},
    ),
    Staged("some passes failed", {one("pass_failures_total", part="loop"): "0x5 4x20"}, 14),
    Staged(
        "passes failed, all at once",
        {one("pass_failures_total", part="loop"): "0x5 8x20"},
        14,
        "TriggerctlPassesFail",
        JOB | {"part": "loop"},
    ),
    Staged("passes fail for a while", {one("pass_failures_total", part="loop"): "0+10x20"}, 4),
)


def unit_tests(rules: str, stages: Sequence[Staged] = STAGED) -> dict[str, Any]:
    """What `promtool test rules` reads: at each stage every alert is looked at, those that must not fire too."""
    return {"rule_files": [rules], "evaluation_interval": "1m", "tests": [_test(staged) for staged in stages]}


def _test(staged: Staged) -> dict[str, Any]:
    said = any("resync_age_seconds" in name for name in staged.series)
    loop = {} if said else {AGE: "15x120", INTERVAL: "30x120"}
    return {
        "name": staged.about,
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in (staged.series | loop).items()],
        "alert_rule_test": [
            {
                "eval_time": f"{staged.minute}m",
                "alertname": alert.name,
                "exp_alerts": [_fired(alert, staged)] if alert.name == staged.fires else [],
            }
            for alert in ALERTS
        ],
    }


def _fired(alert: Alert, staged: Staged) -> dict[str, Any]:
    def said(text: str) -> str:
        text = re.sub(r"{{ \$labels\.(\w+) }}", lambda found: staged.labels[found[1]], text)
        return re.sub(r"{{ \$value.*? }}", staged.shown, text)

    words = {"summary": said(alert.summary), "description": said(alert.description)}
    return {
        "exp_labels": {**staged.labels, "severity": alert.severity},
        "exp_annotations": words | {"runbook_url": f"{RUNBOOKS}/{alert.page}"},
    }

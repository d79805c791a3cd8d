"""The database as the controller feels it, and what the loop does with it."""

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.builders.timeseries import Panel

from dashboards import late
from dashboards.panels import HERE, RATE, empty, graph, quantiles, row


def board() -> Dashboard:
    made = empty("database", "database", "Is the database quick enough, is it heard, and does the loop keep up?")
    made = row(made, "How quick it is", late.transactions(), *_use())
    return row(made, "Does the loop keep up?", *_loop())


def _use() -> list[Panel]:
    return [
        graph(
            "Transactions a second",
            "ops",
            {"{{kind}}": f"sum by (kind) (rate(triggerctl_transaction_seconds_count{{{HERE}}}[{RATE}]))"},
            "Of deciding, of claims that took something, and of settling.",
        ),
        graph(
            "Connections",
            "short",
            {"{{state}} {{instance}}": f"triggerctl_pool_connections{{{HERE}}}"},
            "Of each process. With no free one left, whoever asks waits up to ten seconds.",
        ),
        graph(
            "Listener",
            "short",
            {"{{instance}}": f"triggerctl_listener_connected{{{HERE}}}"},
            "1 while notices are heard. Without them changes are found by polling.",
            most=1,
        ),
    ]


def _loop() -> list[Panel]:
    failures = f"sum by (part) (increase(triggerctl_pass_failures_total{{{HERE}}}[{RATE}]))"
    return [
        graph("Duration of a resync", "s", quantiles("triggerctl_resync_seconds"), "Goes with what changed."),
        graph(
            "Since the last resync",
            "s",
            {
                "{{instance}}": f"triggerctl_resync_age_seconds{{{HERE}}}",
                "interval": f'max(triggerctl_setting{{{HERE}, name="resync_interval"}})',
            },
            "A saw's teeth as high as the interval, unless something wakes the loop.",
        ),
        graph("Passes that failed", "short", {"{{part}}": failures}, "They are tried again; the log says why."),
        graph(
            "Lag of the change feed",
            "s",
            {"{{instance}}": f"triggerctl_feed_lag_seconds{{{HERE}}}"},
            "How old the oldest change was when the loop last read some.",
        ),
        graph(
            "Alarms set and removed",
            "ops",
            {"{{change}}": f"sum by (change) (rate(triggerctl_resync_changes_total{{{HERE}}}[{RATE}]))"},
            "What changed since the resync before.",
        ),
        graph(
            "Alarms held",
            "short",
            {
                "{{instance}}": f"triggerctl_jobs{{{HERE}}}",
                "active triggers": f"max(triggerctl_triggers_active{{{HERE}}})",
            },
            "Every replica holds one for each active trigger.",
        ),
    ]

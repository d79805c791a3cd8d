"""Dashboard of the database: its speed, connections and notices, and whether the loop keeps up."""

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.builders.timeseries import Panel

from dashboards import late
from dashboards.panels import HERE, RATE, empty, graph, quantiles, row


def board() -> Dashboard:
    dashboard = empty("database", "database", "Is the database quick enough, is it heard, and does the loop keep up?")
    dashboard = row(dashboard, "How quick it is", late.transactions(), *_use())
    return row(dashboard, "Does the loop keep up?", *_loop())


def _use() -> list[Panel]:
    return [
        graph(
            "Transactions a second",
            "ops",
            {"{{kind}}": f"sum by (kind) (rate(triggerctl_transaction_seconds_count{{{HERE}}}[{RATE}]))"},
            "Transactions that decide, that claim at least one run, and that settle.",
        ),
        graph(
            "Connections",
            "short",
            {"{{state}} {{instance}}": f"triggerctl_pool_connections{{{HERE}}}"},
            "Connections of each process. When none is free, a request for one waits up to ten seconds.",
        ),
        graph(
            "Listener",
            "short",
            {"{{instance}}": f"triggerctl_listener_connected{{{HERE}}}"},
            "1 while the process receives notifications (LISTEN). Without them it finds changes by polling.",
            most=1,
        ),
    ]


def _loop() -> list[Panel]:
    failures = f"sum by (part) (increase(triggerctl_pass_failures_total{{{HERE}}}[{RATE}]))"
    return [
        graph(
            "Duration of a resync",
            "s",
            quantiles("triggerctl_resync_seconds"),
            "Depends on how much changed since the resync before.",
        ),
        graph(
            "Since the last resync",
            "s",
            {
                "{{instance}}": f"triggerctl_resync_age_seconds{{{HERE}}}",
                "interval": f'max(triggerctl_setting{{{HERE}, name="resync_interval"}})',
            },
            "Rises to the resync interval and falls to zero, earlier when a change wakes the loop.",
        ),
        graph(
            "Passes that failed", "short", {"{{part}}": failures}, "A failed pass is repeated; the log has the error."
        ),
        graph(
            "Lag of the change feed",
            "s",
            {"{{instance}}": f"triggerctl_feed_lag_seconds{{{HERE}}}"},
            "Age of the oldest change when the loop last read changes.",
        ),
        graph(
            "Alarms set and removed",
            "ops",
            {"{{change}}": f"sum by (change) (rate(triggerctl_resync_changes_total{{{HERE}}}[{RATE}]))"},
            "Triggers that were added, replaced or removed, per second.",
        ),
        graph(
            "Alarms held",
            "short",
            {
                "{{instance}}": f"triggerctl_jobs{{{HERE}}}",
                "active triggers": f"max(triggerctl_triggers_active{{{HERE}}})",
            },
            "Every replica holds one alarm for each active trigger.",
        ),
    ]

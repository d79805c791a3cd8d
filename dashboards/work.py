"""Panels about runs, skips and backlogs that the dashboards of fleet and runs share."""

from grafana_foundation_sdk.builders.timeseries import Panel

from dashboards.panels import HERE, RATE, graph


def ended() -> Panel:
    """Runs that ended per second, by outcome."""
    return graph(
        "Runs that ended, by outcome",
        "ops",
        {"{{outcome}}": f"sum by (outcome) (rate(triggerctl_runs_total{{{HERE}}}[{RATE}]))"},
        "Per second, after all attempts.",
    )


def skipped() -> Panel:
    """Skipped occurrences per second, by reason."""
    return graph(
        "Occurrences that became no run, by reason",
        "ops",
        {"{{reason}}": f"sum by (reason) (rate(triggerctl_skips_total{{{HERE}}}[{RATE}]))"},
        "Skips follow from policies and are no fault by themselves. rate: a newer occurrence came before there was a "
        "token.",
    )


def backlog() -> Panel:
    """Missed ranges that wait, and runs made of them."""
    return graph(
        "Catching up",
        "short",
        {
            "ranges that wait": f"max(triggerctl_catchup_backlog{{{HERE}}})",
            "runs a second": f"sum(rate(triggerctl_caught_up_total{{{HERE}}}[{RATE}]))",
        },
        "Catch-up under `catchup: {policy: all}`, at most max_catchup_runs_per_loop runs in each resync interval.",
    )


def backlog_age() -> Panel:
    """Age of the oldest missed occurrence and of the longest waiting run."""
    return graph(
        "Age of what waits",
        "s",
        {
            "oldest missed occurrence": f"max(triggerctl_catchup_oldest_seconds{{{HERE}}})",
            "longest waiting run": f"max(triggerctl_queue_oldest_seconds{{{HERE}}})",
        },
        "A line that rises as fast as time passes means that nothing is being done.",
    )

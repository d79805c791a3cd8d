"""What becomes of occurrences: the panels that the fleet's and the runs' dashboards share."""

from grafana_foundation_sdk.builders.timeseries import Panel

from dashboards.panels import HERE, RATE, graph


def ended() -> Panel:
    """Runs by outcome."""
    return graph(
        "Runs that ended, by outcome",
        "ops",
        {"{{outcome}}": f"sum by (outcome) (rate(triggerctl_runs_total{{{HERE}}}[{RATE}]))"},
        "A second, after all their attempts.",
    )


def skipped() -> Panel:
    """Occurrences that became no run."""
    return graph(
        "Occurrences that became no run, by reason",
        "ops",
        {"{{reason}}": f"sum by (reason) (rate(triggerctl_skips_total{{{HERE}}}[{RATE}]))"},
        "Policies at work; no fault by themselves. rate: a newer occurrence came before there was a token.",
    )


def backlog() -> Panel:
    """What is caught up."""
    return graph(
        "Catching up",
        "short",
        {
            "ranges that wait": f"max(triggerctl_catchup_backlog{{{HERE}}})",
            "runs a second": f"sum(rate(triggerctl_caught_up_total{{{HERE}}}[{RATE}]))",
        },
        "Under `catchup: {policy: all}`; at most max_catchup_runs_per_loop in each resync interval.",
    )


def backlog_age() -> Panel:
    """How far back what is caught up lies."""
    return graph(
        "Age of what waits",
        "s",
        {
            "oldest missed occurrence": f"max(triggerctl_catchup_oldest_seconds{{{HERE}}})",
            "longest waiting run": f"max(triggerctl_queue_oldest_seconds{{{HERE}}})",
        },
        "An age that grows as fast as time says that nothing is done about it.",
    )

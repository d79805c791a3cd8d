"""Panels that show why something is late, used by several dashboards and by `docs/runbooks/fires-late.md`."""

from grafana_foundation_sdk.builders import timeseries

from dashboards.panels import HERE, RATE, graph, quantiles


def causes(also: str = "") -> timeseries.Panel:
    """Number of triggers that are due and undecided, by cause; `also` is a further label matcher."""
    by_project = f"max by (project, cause) (triggerctl_late_triggers{{{HERE}{also}}})"
    return graph(
        "Due and undecided, by cause",
        "short",
        {"{{cause}}": f"sum by (cause) ({by_project})"},
        "freeze: somebody froze the project. rate: there is no token, more is asked for than execution_qps. "
        "quarantine: it cannot be decided. undecided: no pass came to it yet, the loop or the database is slow.",
    )


def due_since(also: str = "") -> timeseries.Panel:
    """Time for which the longest waiting trigger has been due, by cause."""
    return graph(
        "Due since, by cause",
        "s",
        {"{{cause}}": f"max by (cause) (triggerctl_late_seconds{{{HERE}{also}}})"},
        "Time for which the longest waiting trigger has been due.",
    )


def demand() -> timeseries.Panel:
    """Starts per second that the schedules ask for, beside the rate limit."""
    waited = f"sum(rate(triggerctl_rate_limit_wait_seconds_count{{{HERE}}}[{RATE}]))"
    return graph(
        "Starts a second: asked for, limit, tokens waited for",
        "short",
        {
            "asked for by the schedules": f"max(triggerctl_asked_rate{{{HERE}}})",
            "limit (execution_qps)": f'max(triggerctl_setting{{{HERE}, name="execution_qps"}})',
            "started after waiting for a token": waited,
        },
        "Above 70 % of the limit a burst makes starts late. A limit of 0 means unlimited.",
    )


def transactions() -> timeseries.Panel:
    """Duration of the transactions of loop and runner."""
    return graph(
        "Database: duration of transactions",
        "s",
        quantiles("triggerctl_transaction_seconds", "kind")
        | {"answer to a scrape": f"max(triggerctl_database_seconds{{{HERE}}})"},
        "decide: what is due becomes runs. claim: runs are taken. settle: their end is written. All three are slow "
        "when the database, or the way to it, is.",
    )


def queue() -> timeseries.Panel:
    """Number of runs that have not ended, by state."""
    return graph(
        "Runs that go on",
        "short",
        {
            "{{state}}": f"max by (state) (triggerctl_queue_depth{{{HERE}}})",
            "limit (max_running)": f'max(triggerctl_setting{{{HERE}, name="max_running"}})',
        },
        "pending runs wait for a worker, for room below max_running or a limit of their own, for their turn, or for "
        "the end of a freeze.",
    )


def frozen(also: str = "") -> timeseries.Panel:
    """Projects that are frozen."""
    return graph(
        "Frozen",
        "short",
        {"{{project}}": f"max by (project) (triggerctl_frozen{{{HERE}{also}}})"},
        "1 for each project in which nothing starts; (everything) is every project.",
    )

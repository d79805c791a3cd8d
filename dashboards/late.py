"""Why something is late: the panels that `docs/runbooks/fires-late.md` reads, on more than one dashboard."""

from grafana_foundation_sdk.builders import timeseries

from dashboards.panels import HERE, RATE, graph, quantiles


def causes(also: str = "") -> timeseries.Panel:
    """Triggers that are due and undecided, by what keeps them."""
    of = f"max by (project, cause) (triggerctl_late_triggers{{{HERE}{also}}})"
    return graph(
        "Due and undecided, by cause",
        "short",
        {"{{cause}}": f"sum by (cause) ({of})"},
        "freeze: somebody froze the project. rate: there is no token, more is asked for than execution_qps. "
        "quarantine: it cannot be decided. undecided: no pass came to it yet, the loop or the database is slow.",
    )


def since(also: str = "") -> timeseries.Panel:
    """How long the first of them has been due."""
    return graph(
        "Due since, by cause",
        "s",
        {"{{cause}}": f"max by (cause) (triggerctl_late_seconds{{{HERE}{also}}})"},
        "How long the trigger that waits the longest has been due.",
    )


def asked() -> timeseries.Panel:
    """What is asked for, against the rate limit."""
    waited = f"sum(rate(triggerctl_rate_limit_wait_seconds_count{{{HERE}}}[{RATE}]))"
    return graph(
        "Starts a second: asked for, limit, tokens waited for",
        "short",
        {
            "asked for by the schedules": f"max(triggerctl_asked_rate{{{HERE}}})",
            "limit (execution_qps)": f'max(triggerctl_setting{{{HERE}, name="execution_qps"}})',
            "started after waiting for a token": waited,
        },
        "Above 70 % of the limit a burst makes starts late. A limit of 0 is none.",
    )


def transactions() -> timeseries.Panel:
    """How long what the loop and the runner do in the database takes."""
    return graph(
        "Database: duration of transactions",
        "s",
        quantiles("triggerctl_transaction_seconds", "kind")
        | {"answer to a scrape": f"max(triggerctl_database_seconds{{{HERE}}})"},
        "decide: what is due becomes runs. claim: runs are taken. settle: their end is written. All three are slow "
        "when the database, or the way to it, is.",
    )


def queue() -> timeseries.Panel:
    """Runs that were made and have not ended."""
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
    """Freezes in force."""
    return graph(
        "Frozen",
        "short",
        {"{{project}}": f"max by (project) (triggerctl_frozen{{{HERE}{also}}})"},
        "1 for each project in which nothing starts; (everything) is every project.",
    )

"""Dashboard of runs: their number, outcomes, durations and queues."""

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.builders.timeseries import Panel

from dashboards import late, work
from dashboards.panels import HERE, RATE, empty, graph, quantiles, row

FAILED = 'outcome=~"failed|timed_out|expired"'


def board() -> Dashboard:
    dashboard = empty("runs", "runs", "How runs end, how long they take, and what waits to be run.")
    dashboard = row(dashboard, "How runs end", work.ended(), *_shares())
    dashboard = row(dashboard, "What waits", late.queue(), work.backlog_age(), work.backlog(), _tokens())
    return row(dashboard, "What became no run", work.skipped(), _lateness())


def _shares() -> list[Panel]:
    rate = f"sum(rate(triggerctl_runs_total{{{HERE}}}[{RATE}]))"
    failed = f"sum(rate(triggerctl_runs_total{{{HERE}, {FAILED}}}[{RATE}]))"
    return [
        graph(
            "Share that failed",
            "percentunit",
            {"failed": f"{failed} / {rate}"},
            "Runs that failed after all their attempts.",
            most=1,
        ),
        graph(
            "Runs that ended, by source",
            "ops",
            {"{{source}}": f"sum by (source) (rate(triggerctl_runs_total{{{HERE}}}[{RATE}]))"},
            "Whether a schedule, a person or a backfill started them.",
        ),
        graph(
            "How long runs take",
            "s",
            quantiles("triggerctl_run_seconds"),
            "From the start of the last attempt to the end.",
        ),
    ]


def _tokens() -> Panel:
    return graph(
        "Wait for a token",
        "s",
        quantiles("triggerctl_rate_limit_wait_seconds"),
        "Only starts that had to wait; empty while there are tokens for all.",
    )


def _lateness() -> Panel:
    return graph(
        "How late runs are made",
        "s",
        quantiles("triggerctl_fire_lateness_seconds"),
        "From the scheduled instant to the committed run, without runs of a catch-up.",
    )

"""Explanations of outcomes, run statuses and deactivations, with the recommended next step (U-03, E-05)."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from revisions.history.triggers import StopReason
from revisions.ids import utc_text
from revisions.outcomes import OccurrenceOutcome, RunStatus, SkipReason


class Advice(NamedTuple):
    """Explanation and next step; `{trigger}` and `{run}` are replaced by names."""

    why: str
    following: str = ""


RATE: Final = Advice(
    "it waited for its turn until its time had passed: more starts were asked for than `execution_qps` allows",
    "raise `execution_qps`, or have fewer triggers fire at one time",
)
"""Occurrence that was `missed` for lack of a rate token."""

ENOUGH: Final = Advice(
    "the runs that went on were all that `limits.max_runs` still lets succeed",
    "raise it if there are to be more; `triggerctl runs list --trigger {trigger}` shows what went on",
)
"""Occurrence that was skipped because live runs may use up `max_runs`."""

OUTCOMES: Final[Mapping[OccurrenceOutcome, Advice]] = {
    OccurrenceOutcome.PARKED: Advice("its run waits for an approval", "`triggerctl runs approve {run}` lets it go on"),
    OccurrenceOutcome.DENIED: Advice(
        "whoever wrote the trigger may not start this, or a policy refused it",
        "have somebody who may deploy the trigger, or change the policy",
    ),
    OccurrenceOutcome.DUPLICATE: Advice("the same occurrence had come before, and one run is made for it", ""),
    OccurrenceOutcome.DISABLED: Advice(
        "the trigger was inactive when it came", "`triggerctl activate {trigger}` resumes it"
    ),
    OccurrenceOutcome.SELF_REENTRY: Advice(
        "a run of this very trigger caused the event, and a trigger does not fire itself",
        "have another trigger take the event",
    ),
    OccurrenceOutcome.DEBOUNCED: Advice(
        "another event followed within `debounce`, and one run stands for both", "shorten `debounce` if each is to run"
    ),
    OccurrenceOutcome.CONCURRENCY: Advice(
        "a run of this trigger was still going on, and `overlap` keeps a second one out",
        "`overlap: queue_all` would start it after that run, `allow` beside it;"
        " `triggerctl runs list --trigger {trigger}` shows what went on",
    ),
    OccurrenceOutcome.BUDGET: Advice(
        "the budget of its period was used up", "raise `limits.max_cost`, or wait for the next period to begin"
    ),
    OccurrenceOutcome.EXPIRED: Advice(
        "it was too late for it: its time to start within, or the trigger's time, was over",
        "lengthen `start_within` or `limits.expires_at`",
    ),
    OccurrenceOutcome.MISSED: Advice(
        "its time passed while nothing could start it, and the catch-up policy leaves it out",
        "`catchup: {{policy: all}}` would start each one later; `triggerctl fire {trigger}` makes a run now",
    ),
    OccurrenceOutcome.BLACKOUT: Advice(
        "a blackout was in force", "end the blackout, or `triggerctl fire {trigger}` once it is over"
    ),
    OccurrenceOutcome.SUPERSEDED: Advice(
        "it was still undecided when a later revision, or a run's own next fire, began anew",
        "`triggerctl history {trigger}` shows the change; `triggerctl fire {trigger}` makes a run now",
    ),
    OccurrenceOutcome.FAILED: Advice(
        "its run could not be made", "mend what the reason names; the next occurrence tries again"
    ),
}
"""Outcomes of occurrences that became no run."""

RESTORED: Final = Advice(
    "the database was restored from a backup older than that, and nothing of the time since was to fire",
    "`triggerctl backfill {trigger}` makes the runs of a time that has passed",
)
"""Occurrences lost by restoring an older backup."""

STATUSES: Final[Mapping[RunStatus, Advice]] = {
    RunStatus.PENDING: Advice(
        "waits to be claimed", "see that a controller works on runs (`triggerctl up`) and that no limit is reached"
    ),
    RunStatus.RUNNING: Advice("is being worked on", "`triggerctl runs logs {run}` shows what it prints"),
    RunStatus.WAITING: Advice("waits for an event", "`triggerctl runs show {run}` says for which"),
    RunStatus.PARKED: Advice("waits for an approval", "`triggerctl runs approve {run}` lets it go on"),
    RunStatus.SUCCEEDED: Advice("succeeded"),
    RunStatus.FAILED: Advice("failed, after its last attempt", "`triggerctl runs logs {run}` shows what it printed"),
    RunStatus.TIMED_OUT: Advice(
        "took longer than its task's `timeout`", "lengthen the timeout, or make the task quicker"
    ),
    RunStatus.CANCELLED: Advice("was cancelled", "`triggerctl fire {trigger}` makes another one"),
    RunStatus.EXPIRED: Advice("waited for longer than `start_within`", "`triggerctl fire {trigger}` makes another one"),
}
"""Explanations of the statuses of runs, by status."""

DEACTIVATED: Final[Mapping[str, Advice]] = {
    StopReason.COMPLETED: Advice("its schedule had no fire left", "deploy it with a schedule that has one"),
    StopReason.EXPIRED: Advice("its `limits.expires_at` had come", "deploy it with a later one, then activate it"),
    StopReason.MAX_RUNS: Advice(
        "as many runs had succeeded as `limits.max_runs` allows",
        "`triggerctl activate {trigger}` has them counted anew; or raise the limit first",
    ),
    StopReason.BUDGET: Advice(
        "it spent what `limits.max_cost` allows in a period",
        "wait for the next period; or raise it, then `triggerctl activate {trigger}`",
    ),
    StopReason.FAILURES: Advice(
        "too many runs failed in a row",
        "`triggerctl runs list --trigger {trigger} --status failed` shows them; then `triggerctl activate {trigger}`",
    ),
}
"""Reasons for which the system itself deactivates a trigger."""

SHORT_DEACTIVATIONS: Final[Mapping[str, str]] = {
    "failures": "too many failed runs in a row",
    "completed": "completed: its schedule has no fire left",
    "expired": "expired: its time is over",
    "max_runs": "as many runs succeeded as it may have",
    "budget": "its budget is used up until the period ends",
}
"""Short explanations of automatic deactivations, for the web page."""

SHORT_SKIPS: Final[Mapping[str, str]] = {
    "missed": "its time passed while nothing could start it, and catch-up leaves it out",
    "superseded": "a later revision, or a restore, began anew before it was decided",
    "concurrency": "a run of this trigger was still going on",
    "rate": "the rate of starts was used up until its time had passed",
    "blackout": "it fell into a blackout",
    "budget": "the budget of its period was used up",
    "max_runs": "the runs that went on were all that `max_runs` still lets succeed",
    "count": "as many had started as `count` allows",
    "next_fire_at": "a run asked for another time",
}
"""Short explanations by skip reason, or by outcome where no reason is recorded."""

LEFT_OUT: Final[Mapping[str, str]] = {
    "gap": "the clocks skip that hour",
    "fold": "the clocks show that hour twice, and it fires once",
    "exclude": "its day is excluded",
    "freeze": "a freeze is in force",
    "blackout": "it falls into a blackout",
}
"""Reasons for which a wall time does not fire; any other reason is the name of a calendar."""


def of_skip(outcome: OccurrenceOutcome, reason: str) -> Advice:
    """Return the explanation of a recorded skip; an unknown outcome is quoted."""
    if (outcome, reason) == (OccurrenceOutcome.MISSED, SkipReason.RATE):
        return RATE
    if (outcome, reason) == (OccurrenceOutcome.CONCURRENCY, SkipReason.MAX_RUNS):
        return ENOUGH
    if (outcome, reason) == (OccurrenceOutcome.SUPERSEDED, SkipReason.RESTORE):
        return RESTORED
    return OUTCOMES.get(outcome, Advice(f"its outcome is {outcome}"))


def of_status(status: RunStatus) -> Advice:
    """Return the explanation of a run's status; an unknown status is quoted."""
    return STATUSES.get(status, Advice(f"is {status}"))


def of_deactivation(stopped_for: str | None, reason: str) -> Advice:
    """Return the explanation of a deactivation, by the system or by a person with a reason."""
    by_hand = Advice(reason, "`triggerctl activate {trigger}` resumes it from then on")
    return DEACTIVATED.get(stopped_for or "", by_hand)


def at_text(at: datetime) -> str:
    """Format an instant to the second."""
    return utc_text(at.replace(microsecond=0))


def because(reason: str) -> str:
    """Format a reason in parentheses, empty for none."""
    return f" ({reason})" if reason else ""


def span_text(span: timedelta) -> str:
    """Format a duration in seconds, to the millisecond."""
    return f"{span.total_seconds():.3f}".rstrip("0").rstrip(".") + " s"

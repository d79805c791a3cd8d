"""Enums of stored words: statuses and sources of runs, outcomes of occurrences, kinds and modes of holds.

Their values stand in tables, answers and metrics. A later release may have stored a word that this one does not know:
it is read as a member with that value, equal to none of those below.
"""

from enum import StrEnum
from typing import Self


class StoredWord(StrEnum):
    """Base of enums that are read from tables."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        unknown = str.__new__(cls, value)
        unknown._name_ = unknown._value_ = value
        return unknown


class RunStatus(StoredWord):
    """Status of a run (X-02). WAITING: for an event. PARKED: for an approval. EXPIRED: it was never claimed in time."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    PARKED = "parked"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class RunSource(StoredWord):
    """Origin of a run: the trigger's schedule, a fire by hand, or a backfill."""

    SCHEDULE = "schedule"
    MANUAL = "manual"
    BACKFILL = "backfill"


class OccurrenceOutcome(StoredWord):
    """Decision about an occurrence (E-05): the first three are those of a run, the others of a skip.

    MISSED: catch-up leaves it out. SUPERSEDED: a later revision, a run's own next fire or a restore took its place.
    CONCURRENCY: the overlap policy or a limit forbids it. BLACKOUT: one was in force. BUDGET: it is used up. DENIED:
    the author may not start it. FAILED: its run could not be made. The last four are for events: one came twice,
    met an inactive trigger, was caused by a run of the same trigger, or was followed by another within `debounce`.
    """

    STARTED = "started"
    PARKED = "parked"
    EXPIRED = "expired"
    MISSED = "missed"
    SUPERSEDED = "superseded"
    CONCURRENCY = "concurrency"
    BLACKOUT = "blackout"
    BUDGET = "budget"
    DENIED = "denied"
    FAILED = "failed"
    DUPLICATE = "duplicate"
    DISABLED = "disabled"
    SELF_REENTRY = "self_reentry"
    DEBOUNCED = "debounced"


class SkipReason(StrEnum):
    """Reason stored beside a skip's outcome where that alone does not say it; other reasons are free text.

    RATE: no rate token in time. COUNT: as many as `count` allows have started. NEXT_FIRE_AT: a run asked for another
    time. CALENDAR: its day was closed later on. MAX_RUNS: the runs that go on may be all that are still to succeed.
    RESTORE: the database was restored from a backup.
    """

    RATE = "rate"
    COUNT = "count"
    NEXT_FIRE_AT = "next_fire_at"
    CALENDAR = "calendar"
    MAX_RUNS = "max_runs"
    RESTORE = "restore"


class HoldKind(StoredWord):
    """A freeze stops every start until it is lifted; a blackout lasts from one instant to another (S-13)."""

    FREEZE = "freeze"
    BLACKOUT = "blackout"


class HoldMode(StoredWord):
    """Treatment of occurrences in a blackout; where blackouts overlap, the mode named first here applies.

    DROP: skip them. ONE: start the newest at the end. DEFER: start all of them at the end.
    """

    DROP = "drop"
    ONE = "one"
    DEFER = "defer"


class DeadlineKind(StoredWord):
    """Rule of `expect` that sets a deadline: a time of day, or a span since the last success."""

    SUCCESS_BY = "success_by"
    WITHIN = "within"

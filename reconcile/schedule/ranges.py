"""Ranges of occurrences that become no run, as the ledger records them (E-05)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from reconcile.schedule.definition import Schedule
from reconcile.schedule.fires import Fire, count, fires, last
from revisions.outcomes import OccurrenceOutcome, SkipReason

COUNTED: Final = 1_000
"""Number of occurrences up to which the count of a range is exact."""
MOST_COMPARED: Final = 200_000
"""Maximum number of undecided occurrences compared when a calendar changes."""
MOMENT: Final = timedelta(microseconds=1)
"""Resolution of instants; subtracting it excludes an instant from a range's end."""
DROPPED: Final = "dropped"
"""Prefix of the reason recorded when an operator gives up a backlog."""


@dataclass(frozen=True, slots=True)
class Range:
    """Occurrences that become no run, identified by the first; `count` is None above 1,000."""

    first: Fire
    until: datetime
    count: int | None
    outcome: OccurrenceOutcome
    reason: str


def of(fires: Sequence[Fire], outcome: OccurrenceOutcome, reason: str = "") -> tuple[Range, ...]:
    """Return these occurrences as one range, or nothing if there are none."""
    return (Range(fires[0], fires[-1].at, len(fires), outcome, reason),) if fires else ()


def span(
    schedule: Schedule, after: datetime, until: datetime, outcome: OccurrenceOutcome, reason: str = ""
) -> tuple[Range, ...]:
    """Return all occurrences in (after, until] as one range, or nothing if there are none."""
    if until <= after:
        return ()
    first = fires(schedule, after, until, 1)
    newest = last(schedule, after, until)
    if not first or newest is None:
        return ()
    number = count(schedule, after, until, COUNTED + 1)
    return (Range(first[0], newest.at, number if number <= COUNTED else None, outcome, reason),)


def taken(before: Schedule, after: Schedule, spans: Sequence[tuple[datetime, datetime]]) -> tuple[Range, ...]:
    """Return the occurrences of some spans (after, until] that the schedule `before` named and `after` does not, as one
    range.
    """
    named = [fire for span in spans for fire in fires(before, *span, MOST_COMPARED)]
    still = {fire.id for span in spans for fire in fires(after, *span, MOST_COMPARED)}
    gone = of([fire for fire in named if fire.id not in still], OccurrenceOutcome.SUPERSEDED, SkipReason.CALENDAR)
    return tuple(replace(one, count=one.count if (one.count or 0) <= COUNTED else None) for one in gone)


def joined(
    schedule: Schedule, spans: Sequence[tuple[datetime, datetime]], outcome: OccurrenceOutcome, reason: str = ""
) -> Range | None:
    """Return all occurrences of several spans (after, until], oldest first, as one range that includes the time between
    them.
    """
    parts = [part for after, until in spans for part in span(schedule, after, until, outcome, reason)]
    if not parts:
        return None
    numbers = [part.count for part in parts]
    total = None if None in numbers else sum(number or 0 for number in numbers)
    exact = total if total is not None and total <= COUNTED else None
    return Range(parts[0].first, parts[-1].until, exact, outcome, reason)

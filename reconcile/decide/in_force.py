"""Revisions of a trigger by the time they were in force, and the occurrences of that time (R-20, R-21)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from itertools import pairwise

from reconcile.decide.changes import NextRevision, has_occurrences, keeps_watermark
from reconcile.decide.terms import Terms, terms
from reconcile.schedule.definition import Closed
from reconcile.schedule.fires import Fire, Schedule, count, fires, last
from revisions.errors import Invalid
from revisions.history.triggers import SYSTEM, Action, Revision, Trigger, apply
from revisions.spec.stored import readable_trigger

AT_FIRST, AT_ONCE = 2, 1_000
"""Fires that are worked out in one go: at first, for who wants the next one alone, and at most."""
Calendar = Sequence[tuple[datetime, frozenset[date]]]
"""Closed days of a calendar with the instant from which they apply, oldest first."""


@dataclass(frozen=True, slots=True)
class RevisionPeriod:
    """Time (after, until] under one revision; the newest period has no end. `trigger` is its state then.

    `baseline` is the instant from which occurrences count. `counts` is true when occurrences of this time must be
    decided. `is_closed` is true when a later baseline settled all of it. `days_off` are the calendars' closed days in
    force then (S-13).
    """

    after: datetime
    until: datetime | None
    trigger: Trigger
    baseline: datetime
    counts: bool
    is_closed: bool = False
    days_off: Closed = ()

    @property
    def terms(self) -> Terms:
        """Compiled spec. Raises Invalid for a spec that this release cannot read (L-13)."""
        try:
            return terms(self.trigger.spec, self.trigger.resolved, self.days_off)
        except ValueError as error:
            raise Invalid.at(f"revision {self.trigger.revision}", f"cannot be read by this release: {error}") from error

    @property
    def schedule(self) -> Schedule:
        return self.terms.schedule

    @property
    def delay(self) -> timedelta:
        """Offset of the fires after their nominal times (S-12)."""
        return self.terms.delay(str(self.trigger.key))

    def holds(self, at: datetime) -> bool:
        return self.after < at and (self.until is None or at <= self.until)

    def within(self, after: datetime, until: datetime) -> tuple[datetime, datetime]:
        """Return the bounds of the period's part of (after, until]; the end lies before the start if there is none."""
        return max(self.after, after), until if self.until is None else min(self.until, until)


@dataclass(frozen=True, slots=True)
class Named:
    """Fire named by the schedule of a revision period."""

    fire: Fire
    period: RevisionPeriod

    @property
    def at(self) -> datetime:
        return self.fire.at


def periods(revisions: Iterable[Revision]) -> list[RevisionPeriod]:
    """Return the periods of a trigger from all its revisions, oldest first, without gaps.

    A baseline closes the periods before it. A pause with an end ends at that time even if the controller was down, but
    not before a schedule deployed meanwhile (L-05). Inactive time counts under `catchup: {inactive: true}` and where
    activation keeps the watermark.
    """
    found: list[RevisionPeriod] = []
    current: Trigger | None = None
    baseline: datetime | None = None
    for revision in revisions:
        keeps, begins = keeps_watermark(current, _next(revision)), revision.at
        if baseline is None or not keeps:
            if baseline and (resumed := _resumed_at(current, revision)):
                begins = max(baseline, resumed)
            baseline = begins
        found = list(_ended(found, begins, is_closed=not keeps))
        if keeps and revision.active:
            found = _counting_again(found)
        current = apply(current, revision)
        found.append(RevisionPeriod(begins, None, current, baseline, counts=has_occurrences(current)))
    return found


def observing(periods: Iterable[RevisionPeriod], calendars: Mapping[str, Calendar]) -> Iterator[RevisionPeriod]:
    """Return the periods with the closed days of their calendars, split where a calendar changed."""
    for period in periods:
        named = {name: calendars.get(name, ()) for name in readable_trigger(period.trigger.spec).schedule.calendars}
        changes = {at for calendar in named.values() for at, _ in calendar if period.holds(at) and at != period.until}
        edges = [period.after, *sorted(changes), period.until]
        for after, until in pairwise(edges):
            assert after is not None
            closed = tuple((name, _in_force(calendar, after)) for name, calendar in named.items())
            yield replace(period, after=after, until=until, days_off=closed)


def period_at(periods: Sequence[RevisionPeriod], at: datetime) -> RevisionPeriod | None:
    """Return the period that contains an instant, None before the first."""
    return next((period for period in reversed(periods) if period.holds(at)), None)


def named(periods: Sequence[RevisionPeriod], after: datetime, until: datetime) -> Iterator[Named]:
    """Return the fires in (after, until] named by the revisions then in force, inactive time included, ascending."""
    for period in periods:
        low, high = period.within(after, until)
        size = AT_FIRST
        while low < high and (part := fires(period.schedule, low, high, size)):
            yield from (Named(fire, period) for fire in part)
            low, size = part[-1].at, min(8 * size, AT_ONCE)


def newest(periods: Sequence[RevisionPeriod], until: datetime) -> Named | None:
    """Return the newest fire up to an instant; the search stops at time that does not count."""
    for period in reversed(periods):
        low, high = period.within(period.after, until)
        if low >= high:
            continue
        if not period.counts:
            return None
        if fire := last(period.schedule, low, high):
            return Named(fire, period)
    return None


def following(periods: Sequence[RevisionPeriod], after: datetime) -> Named | None:
    """Return the first fire after an instant, in time that counts."""
    for period in periods:
        if period.counts and (period.until is None or after < period.until):
            for fire in fires(period.schedule, max(period.after, after), period.until, 1):
                return Named(fire, period)
    return None


def size(periods: Sequence[RevisionPeriod], after: datetime, until: datetime, limit: int) -> int:
    """Return the number of fires that `named` returns, at most `limit`, without computing them."""
    found = 0
    for period in periods:
        low, high = period.within(after, until)
        if low < high and found < limit:
            found += count(period.schedule, low, high, limit - found)
    return found


def _in_force(calendar: Calendar, at: datetime) -> frozenset[date]:
    return next((days for since, days in reversed(calendar) if since <= at), frozenset())


def _ended(periods: Sequence[RevisionPeriod], at: datetime, *, is_closed: bool) -> Iterator[RevisionPeriod]:
    """Return the periods cut at `at`, without empty ones."""
    for period in periods:
        until = at if period.until is None else min(period.until, at)
        if period.after < until:
            yield replace(period, until=until, is_closed=period.is_closed or is_closed)


def _counting_again(periods: list[RevisionPeriod]) -> list[RevisionPeriod]:
    """Mark the inactive periods at the end as counting: the watermark still stands where they began."""
    asleep = len(periods)
    while asleep and not periods[asleep - 1].trigger.active and not periods[asleep - 1].is_closed:
        asleep -= 1
    return periods[:asleep] + [replace(period, counts=True) for period in periods[asleep:]]


def _resumed_at(current: Trigger | None, revision: Revision) -> datetime | None:
    """Return the planned end of a pause that the system ended with this revision, None for any other change."""
    by_itself = revision.action is Action.ACTIVATE and revision.actor == SYSTEM
    return current.until if by_itself and current else None


def _next(revision: Revision) -> NextRevision:
    return NextRevision(
        action=revision.action,
        active=revision.active,
        reason=revision.reason,
        tags=revision.tags,
        until=revision.until,
        origin=revision.origin,
        resolved=revision.resolved,
        scopes=revision.scopes,
        spec=revision.spec,
    )

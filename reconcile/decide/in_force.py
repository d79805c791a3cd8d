"""Which revision of a trigger was in force when, and which of that time has occurrences (R-20, R-21)."""

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
"""What a calendar closed, and since when, oldest first."""


@dataclass(frozen=True, slots=True)
class Era:
    """The time (after, until] under one revision; the newest has no end. `trigger` is what it was then.

    `baseline` is where occurrences last began to count. `counts`: those of this time are to be decided. `is_closed`: a
    later baseline left nothing of it undecided. `days_off` are those of the calendars in force then (S-13).
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
        """Raises Invalid for a spec that this release cannot read (L-13)."""
        try:
            return terms(self.trigger.spec, self.trigger.resolved, self.days_off)
        except ValueError as error:
            raise Invalid.at(f"revision {self.trigger.revision}", f"cannot be read by this release: {error}") from error

    @property
    def schedule(self) -> Schedule:
        return self.terms.schedule

    @property
    def delay(self) -> timedelta:
        """How much later than its nominal times it fires (S-12)."""
        return self.terms.delay(str(self.trigger.key))

    def holds(self, at: datetime) -> bool:
        return self.after < at and (self.until is None or at <= self.until)

    def within(self, after: datetime, until: datetime) -> tuple[datetime, datetime]:
        """Its part of (after, until]; where there is none, the end lies before the beginning."""
        return max(self.after, after), until if self.until is None else min(self.until, until)


@dataclass(frozen=True, slots=True)
class Named:
    """A fire that the schedule of an era names."""

    fire: Fire
    era: Era

    @property
    def at(self) -> datetime:
        return self.fire.at


def eras(revisions: Iterable[Revision]) -> list[Era]:
    """The eras of a trigger, from all its revisions, oldest first; time between two of them there is none.

    A baseline closes what was before it. A pause that ended by itself ended when it was to, also where the controller
    was down then, but not before another schedule came meanwhile (L-05). Inactive time counts under
    `catchup: {inactive: true}`, and where its end leaves the watermark alone.
    """
    found: list[Era] = []
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
        found.append(Era(begins, None, current, baseline, counts=has_occurrences(current)))
    return found


def observing(eras: Iterable[Era], calendars: Mapping[str, Calendar]) -> Iterator[Era]:
    """The eras of a trigger with the days off of the calendars they name, each cut where one of these changed."""
    for era in eras:
        named = {name: calendars.get(name, ()) for name in readable_trigger(era.trigger.spec).schedule.calendars}
        changes = {at for calendar in named.values() for at, _ in calendar if era.holds(at) and at != era.until}
        edges = [era.after, *sorted(changes), era.until]
        for after, until in pairwise(edges):
            assert after is not None
            closed = tuple((name, _in_force(calendar, after)) for name, calendar in named.items())
            yield replace(era, after=after, until=until, days_off=closed)


def era_at(eras: Sequence[Era], at: datetime) -> Era | None:
    """The era that an instant belongs to, None before the first."""
    return next((era for era in reversed(eras) if era.holds(at)), None)


def named(eras: Sequence[Era], after: datetime, until: datetime) -> Iterator[Named]:
    """What the revisions then in force name in (after, until], inactive time included, ascending."""
    for era in eras:
        low, high = era.within(after, until)
        size = AT_FIRST
        while low < high and (part := fires(era.schedule, low, high, size)):
            yield from (Named(fire, era) for fire in part)
            low, size = part[-1].at, min(8 * size, AT_ONCE)


def newest(eras: Sequence[Era], until: datetime) -> Named | None:
    """The newest fire up to an instant, not looked for beyond time that does not count."""
    for era in reversed(eras):
        low, high = era.within(era.after, until)
        if low >= high:
            continue
        if not era.counts:
            return None
        if fire := last(era.schedule, low, high):
            return Named(fire, era)
    return None


def following(eras: Sequence[Era], after: datetime) -> Named | None:
    """The first fire after an instant, in time that counts."""
    for era in eras:
        if era.counts and (era.until is None or after < era.until):
            for fire in fires(era.schedule, max(era.after, after), era.until, 1):
                return Named(fire, era)
    return None


def size(eras: Sequence[Era], after: datetime, until: datetime, limit: int) -> int:
    """How many `named` answers, at most `limit`, without working them out."""
    found = 0
    for era in eras:
        low, high = era.within(after, until)
        if low < high and found < limit:
            found += count(era.schedule, low, high, limit - found)
    return found


def _in_force(calendar: Calendar, at: datetime) -> frozenset[date]:
    return next((days for since, days in reversed(calendar) if since <= at), frozenset())


def _ended(eras: Sequence[Era], at: datetime, *, is_closed: bool) -> Iterator[Era]:
    """The eras up to `at`; those that would have been no time at all are left out."""
    for era in eras:
        until = at if era.until is None else min(era.until, at)
        if era.after < until:
            yield replace(era, until=until, is_closed=era.is_closed or is_closed)


def _counting_again(eras: list[Era]) -> list[Era]:
    """The watermark still stands where inactive time began: all of that time is decided now."""
    asleep = len(eras)
    while asleep and not eras[asleep - 1].trigger.active and not eras[asleep - 1].is_closed:
        asleep -= 1
    return eras[:asleep] + [replace(era, counts=True) for era in eras[asleep:]]


def _resumed_at(current: Trigger | None, revision: Revision) -> datetime | None:
    """When the pause was to end that the system ended with this revision, None for any other change."""
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

"""Calendars as deciding, deploying and previewing need them: right, there, and the days they close (S-13)."""

from collections.abc import Iterable, Sequence

from reconcile.decide.in_force import RevisionPeriod, observing
from reconcile.decide.terms import Terms, terms
from reconcile.schedule.definition import Closed
from revisions.errors import Invalid
from revisions.ids import CalendarKey
from revisions.spec.stored import calendar_spec, readable_trigger
from revisions.store import calendars as store
from revisions.store.database import Connection

KNOWN = 20
"""How many calendars of a project a refusal names at most."""


def refuse_unknown(connection: Connection, project: str, names: Sequence[str]) -> None:
    """The calendars that a manifest names must be there. Raises Invalid at the first that is not."""
    if not names:
        return
    there = {row.name for row in store.in_force(connection, project, names) if not row.deleted}
    for place, name in enumerate(names):
        if name not in there:
            known = [row.name for row in store.page(connection, None, KNOWN, project)]
            hint = f"there are {', '.join(known)}" if known else "deploy the calendar first"
            raise Invalid.at(f"spec.schedule.calendars[{place}]", f"{project} has no calendar {name!r}", hint)


def closed(connection: Connection, project: str, names: Iterable[str]) -> Closed:
    """The days of these calendars as they are now; one that does not exist closes none."""
    wanted = tuple(names)
    if not wanted:
        return ()
    found = {row.name: calendar_spec(row.spec).days for row in store.in_force(connection, project, wanted)}
    return tuple((name, found[name]) for name in wanted if name in found)


def lived(connection: Connection, project: str, through: Sequence[RevisionPeriod]) -> list[RevisionPeriod]:
    """Eras with the days off of the calendars they name, as those were then."""
    names = {name for period in through for name in readable_trigger(period.trigger.spec).schedule.calendars}
    closing = {
        name: [
            (row.at, calendar_spec(row.spec).days)
            for row in reversed(store.history(connection, CalendarKey(project, name)))
        ]
        for name in names
    }
    return list(observing(through, closing))


def read_terms(connection: Connection, project: str, spec: str, resolved: str) -> Terms:
    """The terms of a stored spec, with the calendars it names. Raises ValueError for one that cannot be read."""
    return terms(spec, resolved, closed(connection, project, readable_trigger(spec).schedule.calendars))

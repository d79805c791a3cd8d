"""Calendars named by triggers: checked at deploy, and their closed days read for decisions and previews (S-13)."""

from collections.abc import Iterable, Sequence

from reconcile.decide.in_force import RevisionPeriod, observing
from reconcile.decide.terms import Terms, terms
from reconcile.schedule.definition import Closed
from revisions.errors import Invalid
from revisions.ids import CalendarKey
from revisions.spec.stored import calendar_spec, readable_trigger
from revisions.store import calendars as store
from revisions.store.database import Connection

_MOST_NAMED = 20
"""Calendars of a project that a refusal names at most."""


def refuse_unknown_calendars(connection: Connection, project: str, names: Sequence[str]) -> None:
    """Raise Invalid at the first of these calendars that does not exist."""
    if not names:
        return
    existing = {row.name for row in store.in_force(connection, project, names) if not row.deleted}
    for position, name in enumerate(names):
        if name not in existing:
            known = [row.name for row in store.page(connection, None, _MOST_NAMED, project)]
            hint = f"there are {', '.join(known)}" if known else "deploy the calendar first"
            raise Invalid.at(f"spec.schedule.calendars[{position}]", f"{project} has no calendar {name!r}", hint)


def closed_days_of(connection: Connection, project: str, names: Iterable[str]) -> Closed:
    """Return the closed days of these calendars as they are now; a calendar that does not exist closes none.

    A deleted calendar keeps its last days, for deleted triggers that still name it (R-21).
    """
    wanted = tuple(names)
    if not wanted:
        return ()
    days = {row.name: calendar_spec(row.spec).days for row in store.in_force(connection, project, wanted)}
    return tuple((name, days[name]) for name in wanted if name in days)


def eras_with_calendars(connection: Connection, project: str, eras: Sequence[RevisionPeriod]) -> list[RevisionPeriod]:
    """Return the eras with the closed days of the calendars they name, as those days were at the time."""
    names = {name for era in eras for name in readable_trigger(era.trigger.spec).schedule.calendars}
    histories = {
        name: [
            (row.at, calendar_spec(row.spec).days)
            for row in reversed(store.history(connection, CalendarKey(project, name)))
        ]
        for name in names
    }
    return list(observing(eras, histories))


def read_terms(connection: Connection, project: str, spec: str, resolved: str) -> Terms:
    """Return the terms of a stored spec, with the calendars it names. Raises ValueError when it cannot be read."""
    return terms(spec, resolved, closed_days_of(connection, project, readable_trigger(spec).schedule.calendars))

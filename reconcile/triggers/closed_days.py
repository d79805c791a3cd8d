"""Calendars as deciding, deploying and previewing need them: right, there, and the days they close (S-13)."""

import json
from collections.abc import Iterable, Sequence
from datetime import date

from reconcile.decide.in_force import Era, observing
from reconcile.schedule import bounds
from reconcile.schedule.definition import Closed
from reconcile.schedule.notation import ScheduleError, instant
from reconcile.schedule.terms import Terms, calendars_of, terms
from revisions.errors import Fault, Invalid
from revisions.history import chain
from revisions.ids import CalendarKey
from revisions.manifests import Calendar
from revisions.store import calendars as store
from revisions.store.database import Connection

KNOWN = 20
"""How many calendars of a project a refusal names at most."""


def faults(manifest: Calendar) -> list[Fault]:
    """What is wrong with the texts of a manifest that only this package can read: its dates and its end."""
    try:
        if manifest.spec.until is not None:
            instant(manifest.spec.until, "spec.until")
        days_of(chain.canonical(manifest.written))
    except ScheduleError as error:
        return [Fault(error.path, error.message, error.hint)]
    return []


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
    found = {row.name: days_of(row.spec) for row in store.in_force(connection, project, wanted)}
    return tuple((name, found[name]) for name in wanted if name in found)


def days_of(spec: str) -> frozenset[date]:
    """The days that a calendar's text closes, none after its end."""
    read = json.loads(spec)
    days = bounds.days(read["dates"], "spec.dates")
    if "until" not in read:
        return days
    end = instant(read["until"]).date()
    return frozenset(day for day in days if day <= end)


def lived(connection: Connection, project: str, through: Sequence[Era]) -> list[Era]:
    """Eras with the days off of the calendars they name, as those were then."""
    names = {name for era in through for name in calendars_of(era.trigger.spec)}
    closing = {
        name: [(row.at, days_of(row.spec)) for row in reversed(store.history(connection, CalendarKey(project, name)))]
        for name in names
    }
    return list(observing(through, closing))


def read_terms(connection: Connection, project: str, spec: str, resolved: str) -> Terms:
    """The terms of a stored spec, with the calendars it names. Raises ValueError for one that cannot be read."""
    return terms(spec, resolved, closed(connection, project, calendars_of(spec)))

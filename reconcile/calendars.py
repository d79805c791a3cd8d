"""Calendars as deciding and deploying need them: the days of those that a spec names (S-13)."""

import json
from collections.abc import Iterable
from datetime import date

from reconcile.rules import bounds
from reconcile.rules.block import Closed
from reconcile.rules.notation import instant
from reconcile.rules.terms import Terms, calendars_of, terms
from revisions.store import calendars as store
from revisions.store.database import Connection


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


def read_terms(connection: Connection, project: str, spec: str, resolved: str) -> Terms:
    """The terms of a stored spec, with the calendars it names. Raises ValueError for one that cannot be read."""
    return terms(spec, resolved, closed(connection, project, calendars_of(spec)))

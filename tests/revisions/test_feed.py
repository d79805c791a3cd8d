"""The change feed: whoever keeps nothing but the position misses nothing, whatever commits when."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial

import psycopg
import pytest

from revisions.clock import HandClock
from revisions.errors import Invalid
from revisions.history.triggers import Action, Revision, Trigger
from revisions.store import revisions, triggers
from revisions.store.database import Database
from tests.races.crowd import at_once
from tests.rows import Rows

Told = list[tuple[str, int]]
BEGINNING = str(revisions.BEGINNING)


@pytest.fixture
def rows(database: Database) -> Rows:
    return Rows(database)


@pytest.fixture
def server(postgresql_database_url: str) -> Iterator[Database]:
    """PostgreSQL, where transactions overlap."""
    with Database(postgresql_database_url) as database:
        database.clock = HandClock(datetime(2026, 3, 2, 8, tzinfo=UTC))
        yield database


class Reader:
    """A consumer that is started anew for every part: it keeps the token, and what it was told, to drop repeats.

    Transactions of others on the server may make PostgreSQL repeat at any time, so only what is new is looked at.
    """

    def __init__(self, database: Database, token: str = BEGINNING) -> None:
        self.database, self.token = database, token
        self.told: set[tuple[str, int]] = set()

    def part(self, limit: int) -> tuple[Told, bool]:
        """What is new in one part, and whether there is more at once."""
        with self.database.read() as connection:
            part = revisions.read(connection, revisions.Position.parse(self.token), limit)
        self.token = str(part.position)
        found = [(change.key.name, change.revision) for change in part.items]
        assert len(found) <= limit
        new = [change for change in found if change not in self.told]
        self.told.update(found)
        return new, part.more

    def new(self, limit: int = 100) -> Told:
        """All that is new, until there is no more at once."""
        found, more = [], True
        while more:
            part, more = self.part(limit)
            found += part
        return found


def own_task(rows: Rows, name: str) -> Trigger:
    """A trigger of a task of its own, so that a transaction on it stands in nobody's way."""
    rows.task(f"task-of-{name}")
    return rows.trigger(name, f"task-of-{name}")


@contextmanager
def held(database: Database, trigger: Trigger) -> Iterator[None]:
    """A second revision, written and not committed until the block ends: its position is smaller than all after it."""
    made = Revision(
        trigger_id=trigger.trigger_id,
        key=trigger.key,
        revision=2,
        action=Action.DEPLOY,
        actor="test",
        reason="held",
        at=trigger.changed_at,
        active=True,
        tags=(),
        until=None,
        origin=None,
        idempotency_key=None,
        resolved="{}",
        scopes="[]",
        spec=trigger.spec,
        previous_hash="",
        hash="",
    )
    with database.write() as connection:
        triggers.append(connection, trigger, made, None)
        yield


@pytest.mark.parametrize("limit", [1, 100])
def test_every_change_in_order_and_then_what_is_new(database: Database, rows: Rows, limit: int) -> None:
    """R-17: from the beginning, then only what is new; no more than asked for at once."""
    rows.task()
    trigger = rows.redeploy(rows.trigger(), description="x")
    reader = Reader(database)
    assert reader.new(limit) == [("morning", 1), ("morning", 2)]
    assert reader.new(limit) == []
    rows.redeploy(trigger, description="y")
    assert reader.new(limit) == [("morning", 3)]


def test_sqlite_tells_nothing_twice(sqlite_database_url: str) -> None:
    """R-17: where transactions come one after another, a position is exact."""
    with Database(sqlite_database_url) as database:
        rows = Rows(database)
        rows.task()
        rows.trigger()
        with database.read() as connection:
            part = revisions.read(connection, revisions.BEGINNING, 10)
            assert len(part.items) == 1
            assert revisions.read(connection, part.position, 10) == revisions.FeedPage([], part.position, False)


def test_a_change_that_commits_late_with_a_smaller_position_is_not_missed(server: Database) -> None:
    """R-17: a transaction is held open while later ones commit: those are told at once, and then it."""
    rows = Rows(server)
    slow, quick = own_task(rows, "slow"), own_task(rows, "quick")
    reader = Reader(server)
    reader.new()
    with held(server, slow):
        quick = rows.redeploy(quick, description="1")
        assert reader.new() == [("quick", 2)]
        rows.redeploy(quick, description="2")
        assert reader.new() == [("quick", 3)]
    assert reader.new() == [("slow", 2)]
    assert reader.new() == []


def test_a_transaction_of_another_database_delays_nothing(server: Database, postgresql_url: str) -> None:
    """R-17: while one is held open elsewhere on the server, no change waits, and none is missed."""
    rows = Rows(server)
    trigger = own_task(rows, "tick")
    reader = Reader(server)
    reader.new()
    with psycopg.connect(postgresql_url) as elsewhere:
        elsewhere.execute("SELECT pg_current_xact_id()")
        for number in (2, 3, 4):
            trigger = rows.redeploy(trigger, description=str(number))
            assert reader.new() == [("tick", number)]
    rows.redeploy(trigger, description="5")
    assert reader.new() == [("tick", 5)]
    assert reader.told == {("tick", number) for number in range(1, 6)}


def test_one_at_a_time_while_late_ones_commit_in_between(server: Database) -> None:
    """R-17: parts of one change, and what commits between two parts, before and behind the place reached."""
    rows = Rows(server)
    slow, quick = own_task(rows, "slow"), own_task(rows, "quick")
    reader = Reader(server)
    reader.new(1)
    with held(server, slow):
        for number in (2, 3):
            quick = rows.redeploy(quick, description=str(number))
        while ("quick", 2) not in reader.told:
            assert reader.part(1)[1]
        assert ("quick", 3) not in reader.told
    rows.redeploy(quick, description="4")
    assert reader.new(1) == [("quick", 3), ("quick", 4)]
    assert reader.new(1) == [("slow", 2)]
    assert reader.new(1) == []


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_writers_all_at_once_and_a_reader_beside_them(database: Database, rows: Rows, limit: int) -> None:
    """R-17: whatever overlaps, the reader is told every revision."""
    written = [own_task(rows, f"tick-{number}") for number in range(4)]
    ended = threading.Event()
    reader, chance = Reader(database), random.Random(limit)

    def write(trigger: Trigger) -> None:
        for number in range(2, 17):
            trigger = rows.redeploy(trigger, description=str(number))

    def write_all() -> None:
        try:
            at_once([partial(write, trigger) for trigger in written])
        finally:
            ended.set()

    def follow() -> None:
        is_last = False
        while not is_last:
            is_last = ended.is_set()
            reader.new(limit if chance.random() < 0.8 else limit + 1)

    at_once([write_all, follow])
    assert reader.told == {(f"tick-{number}", revision) for number in range(4) for revision in range(1, 17)}


def test_a_position_that_the_database_has_not_come_to_begins_anew(database: Database, rows: Rows) -> None:
    """R-17: after an older copy was restored, everything is told again rather than something missed."""
    rows.task()
    rows.trigger()
    ahead = revisions.Position(0, 2**40, 0) if database.is_sqlite else revisions.Position(2**60, 0, 2**60)
    reader = Reader(database, str(ahead))
    assert reader.new() == [("morning", 1)]
    assert reader.new() == []


def test_the_end_is_where_the_next_change_begins(database: Database, rows: Rows) -> None:
    """R-17, L-03: who reads everything else after asking for the end misses nothing."""
    rows.task()
    trigger = rows.trigger()
    with database.read() as connection:
        reader = Reader(database, str(revisions.end(connection)))
    rows.redeploy(trigger, description="x")
    assert reader.new()[-1] == ("morning", 2)


@pytest.mark.parametrize(
    "token", ["", "x", "1.2", "1.2.3.4", "-1.0.0", "1.-2.3", " 1.2.3", "0.9999999999999999999.0", "٣.٣.٣", "1.2.3\n"]
)
def test_what_is_no_position(token: str) -> None:
    """R-17: refused by name."""
    with pytest.raises(Invalid) as refused:
        revisions.Position.parse(token)
    assert refused.value.errors[0].path == "after"

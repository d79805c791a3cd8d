"""Change feed: a reader that stores only its position misses no change, in whatever order transactions commit."""

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

Changes = list[tuple[str, int]]
BEGINNING = str(revisions.BEGINNING)


@pytest.fixture
def rows(database: Database) -> Rows:
    return Rows(database)


@pytest.fixture
def server(postgresql_database_url: str) -> Iterator[Database]:
    """PostgreSQL database, on which transactions overlap."""
    with Database(postgresql_database_url) as database:
        database.clock = HandClock(datetime(2026, 3, 2, 8, tzinfo=UTC))
        yield database


class Reader:
    """Reader of the feed that keeps the position between pages, and the changes it has seen, to drop repeated ones.

    Other transactions on the PostgreSQL server may make the feed repeat changes at any time, so tests compare new ones.
    """

    def __init__(self, database: Database, token: str = BEGINNING) -> None:
        self.database, self.token = database, token
        self.seen: set[tuple[str, int]] = set()

    def page(self, limit: int) -> tuple[Changes, bool]:
        """Read a page; return its new changes, and True if more can be read at once."""
        with self.database.read() as connection:
            page = revisions.read(connection, revisions.Position.parse(self.token), limit)
        self.token = str(page.position)
        changes = [(change.key.name, change.revision) for change in page.items]
        assert len(changes) <= limit
        new = [change for change in changes if change not in self.seen]
        self.seen.update(changes)
        return new, page.more

    def new(self, limit: int = 100) -> Changes:
        """Read all pages that can be read at once, and return the new changes."""
        changes, more = [], True
        while more:
            page, more = self.page(limit)
            changes += page
        return changes


def trigger_with_own_task(rows: Rows, name: str) -> Trigger:
    """Insert a trigger with a task of its own, so that a transaction on it blocks no other trigger."""
    rows.task(f"task-of-{name}")
    return rows.trigger(name, f"task-of-{name}")


@contextmanager
def uncommitted_revision(database: Database, trigger: Trigger) -> Iterator[None]:
    """Write revision 2, and commit it when the block ends; its position is smaller than those of later changes."""
    revision = Revision(
        trigger_id=trigger.trigger_id,
        key=trigger.key,
        revision=2,
        action=Action.DEPLOY,
        actor="test",
        reason="test",
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
        triggers.append(connection, trigger, revision, None)
        yield


@pytest.mark.parametrize("limit", [1, 100])
def test_changes_are_read_in_order_up_to_the_limit(database: Database, rows: Rows, limit: int) -> None:
    """R-17: from the beginning every change, later only new ones."""
    rows.task()
    trigger = rows.redeploy(rows.trigger(), description="x")
    reader = Reader(database)
    assert reader.new(limit) == [("morning", 1), ("morning", 2)]
    assert reader.new(limit) == []
    rows.redeploy(trigger, description="y")
    assert reader.new(limit) == [("morning", 3)]


def test_sqlite_repeats_no_change(sqlite_database_url: str) -> None:
    """R-17: transactions are serial on SQLite, so a position is exact."""
    with Database(sqlite_database_url) as database:
        rows = Rows(database)
        rows.task()
        rows.trigger()
        with database.read() as connection:
            page = revisions.read(connection, revisions.BEGINNING, 10)
            assert len(page.items) == 1
            assert revisions.read(connection, page.position, 10) == revisions.FeedPage([], page.position, False)


def test_a_change_that_commits_late_with_a_smaller_position_is_not_missed(server: Database) -> None:
    """R-17: the changes of later transactions are read at once, and the change of the open one after its commit."""
    rows = Rows(server)
    slow, quick = trigger_with_own_task(rows, "slow"), trigger_with_own_task(rows, "quick")
    reader = Reader(server)
    reader.new()
    with uncommitted_revision(server, slow):
        quick = rows.redeploy(quick, description="1")
        assert reader.new() == [("quick", 2)]
        rows.redeploy(quick, description="2")
        assert reader.new() == [("quick", 3)]
    assert reader.new() == [("slow", 2)]
    assert reader.new() == []


def test_a_transaction_of_another_database_delays_no_change(server: Database, postgresql_url: str) -> None:
    """R-17: an open transaction in another database of the server neither delays nor hides a change."""
    rows = Rows(server)
    trigger = trigger_with_own_task(rows, "tick")
    reader = Reader(server)
    reader.new()
    with psycopg.connect(postgresql_url) as elsewhere:
        elsewhere.execute("SELECT pg_current_xact_id()")
        for number in (2, 3, 4):
            trigger = rows.redeploy(trigger, description=str(number))
            assert reader.new() == [("tick", number)]
    rows.redeploy(trigger, description="5")
    assert reader.new() == [("tick", 5)]
    assert reader.seen == {("tick", number) for number in range(1, 6)}


def test_a_change_that_commits_between_two_pages_is_not_missed(server: Database) -> None:
    """R-17: with pages of one change, whether its position is before or after the one that the reader has reached."""
    rows = Rows(server)
    slow, quick = trigger_with_own_task(rows, "slow"), trigger_with_own_task(rows, "quick")
    reader = Reader(server)
    reader.new(1)
    with uncommitted_revision(server, slow):
        for number in (2, 3):
            quick = rows.redeploy(quick, description=str(number))
        while ("quick", 2) not in reader.seen:
            assert reader.page(1)[1]
        assert ("quick", 3) not in reader.seen
    rows.redeploy(quick, description="4")
    assert reader.new(1) == [("quick", 3), ("quick", 4)]
    assert reader.new(1) == [("slow", 2)]
    assert reader.new(1) == []


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_a_reader_beside_concurrent_writers_reads_every_revision(database: Database, rows: Rows, limit: int) -> None:
    """R-17: four writers change triggers while the reader follows the feed."""
    written = [trigger_with_own_task(rows, f"tick-{number}") for number in range(4)]
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
    assert reader.seen == {(f"tick-{number}", revision) for number in range(4) for revision in range(1, 17)}


def test_a_position_ahead_of_the_database_reads_from_the_beginning(database: Database, rows: Rows) -> None:
    """R-17: after an older copy was restored, all changes are repeated so that none is missed."""
    rows.task()
    rows.trigger()
    ahead = revisions.Position(0, 2**40, 0) if database.is_sqlite else revisions.Position(2**60, 0, 2**60)
    reader = Reader(database, str(ahead))
    assert reader.new() == [("morning", 1)]
    assert reader.new() == []


def test_the_next_change_is_read_from_the_end_position(database: Database, rows: Rows) -> None:
    """R-17, L-03: a reader that takes the end position, and then reads the current rows, misses no change."""
    rows.task()
    trigger = rows.trigger()
    with database.read() as connection:
        reader = Reader(database, str(revisions.end(connection)))
    rows.redeploy(trigger, description="x")
    assert reader.new()[-1] == ("morning", 2)


@pytest.mark.parametrize(
    "token", ["", "x", "1.2", "1.2.3.4", "-1.0.0", "1.-2.3", " 1.2.3", "0.9999999999999999999.0", "٣.٣.٣", "1.2.3\n"]
)
def test_an_invalid_position_is_refused(token: str) -> None:
    """R-17: the fault names the parameter `after`."""
    with pytest.raises(Invalid) as refused:
        revisions.Position.parse(token)
    assert refused.value.errors[0].path == "after"

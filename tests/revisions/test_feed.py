"""The change feed: whoever keeps nothing but the position misses nothing, whatever commits when."""

import random
import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import psycopg
import pytest

from revisions.clock import HandClock
from revisions.errors import Invalid
from revisions.store import feed
from revisions.store.database import Database
from revisions.triggers import Trigger
from tests.races.crowd import at_once
from tests.rows import Rows

Told = list[tuple[str, int]]
BEGINNING = str(feed.BEGINNING)


@pytest.fixture
def rows(database: Database) -> Rows:
    return Rows(database)


@pytest.fixture
def server(postgresql_database_url: str) -> Iterator[Database]:
    """PostgreSQL, where transactions overlap."""
    with Database(postgresql_database_url) as database:
        database.clock = HandClock(datetime(2026, 3, 2, 8, tzinfo=UTC))
        yield database


def read(database: Database, token: str, limit: int = 100) -> tuple[Told, str, bool]:
    """One part, asked by a reader that was started anew: the token alone is kept."""
    with database.read() as connection:
        part = feed.read(connection, feed.Position.parse(token), limit)
    return [(change.key.name, change.revision) for change in part.items], str(part.position), part.more


def read_all(database: Database, token: str, limit: int = 100) -> tuple[Told, str]:
    """All there is from a position on."""
    told, more = [], True
    while more:
        part, token, more = read(database, token, limit)
        told += part
    return told, token


def own_task(rows: Rows, name: str) -> Trigger:
    """A trigger of a task of its own, so that a transaction on it stands in nobody's way."""
    rows.task(f"task-of-{name}")
    return rows.trigger(name, f"task-of-{name}")


class Held:
    """A redeploy in a transaction that stays open until `commit`; its position is smaller than all that come then."""

    def __init__(self, database: Database, trigger: Trigger) -> None:
        self._open, self._end = threading.Event(), threading.Event()
        self._database, self._trigger = database, trigger
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._open.wait(10)

    def _run(self) -> None:
        from dataclasses import replace

        held = Database(self._database.url.render_as_string(hide_password=False))
        held.clock = self._database.clock

        class Waits(Rows):
            """Commits when it is told to."""

        with held, held.write() as connection:
            from contextlib import contextmanager

            @contextmanager
            def within() -> Iterator[object]:
                yield connection

            inside = replace(Waits(held))
            held.write = within  # type: ignore[method-assign]
            inside.redeploy(self._trigger, description="held")
            self._open.set()
            assert self._end.wait(8)

    def commit(self) -> None:
        self._end.set()
        self._thread.join()


def test_every_change_once_in_order(database: Database, rows: Rows) -> None:
    """R-17: from the beginning, then only what is new; no more than asked for at once."""
    rows.task()
    trigger = rows.redeploy(rows.trigger(), description="x")
    assert read_all(database, BEGINNING, limit=1)[0] == [("morning", 1), ("morning", 2)]
    told, token = read_all(database, BEGINNING)
    assert told == [("morning", 1), ("morning", 2)]
    assert read(database, token) == ([], token, False)
    rows.redeploy(trigger, description="y")
    assert read_all(database, token)[0] == [("morning", 3)]


def test_a_change_that_commits_late_with_a_smaller_position_is_not_missed(server: Database) -> None:
    """R-17: a transaction is held open while later ones commit: those are told at once, and then it."""
    rows = Rows(server)
    slow, quick = own_task(rows, "slow"), own_task(rows, "quick")
    _, token = read_all(server, BEGINNING)
    held = Held(server, slow)
    quick = rows.redeploy(quick, description="1")
    told, token = read_all(server, token)
    assert told == [("quick", 2)]
    rows.redeploy(quick, description="2")
    told, token = read_all(server, token)
    assert ("quick", 3) in told
    assert ("slow", 2) not in told
    held.commit()
    told, token = read_all(server, token)
    assert ("slow", 2) in told
    assert read_all(server, read_all(server, token)[1])[0] == []


def test_a_transaction_of_another_database_delays_nothing(server: Database, postgresql_url: str) -> None:
    """R-17: one that is held open elsewhere on the server makes changes repeat, and neither waits nor is missed."""
    rows = Rows(server)
    trigger = own_task(rows, "tick")
    _, token = read_all(server, BEGINNING)
    with psycopg.connect(postgresql_url) as elsewhere:
        elsewhere.execute("SELECT pg_current_xact_id()")
        seen = []
        for number in (2, 3, 4):
            trigger = rows.redeploy(trigger, description=str(number))
            told, token = read_all(server, token)
            assert told[-1] == ("tick", number)
            seen += told
        assert set(seen) == {("tick", 2), ("tick", 3), ("tick", 4)}
    rows.redeploy(trigger, description="5")
    told, token = read_all(server, token)
    assert ("tick", 5) in told
    assert read_all(server, token)[0] == []


def test_one_at_a_time_while_late_ones_commit_in_between(server: Database) -> None:
    """R-17: parts of one change, and what commits between two parts, before and behind the place reached."""
    rows = Rows(server)
    slow, quick = own_task(rows, "slow"), own_task(rows, "quick")
    _, token = read_all(server, BEGINNING)
    held = Held(server, slow)
    for number in (2, 3):
        quick = rows.redeploy(quick, description=str(number))
    told, token, more = read(server, token, 1)
    assert (told, more) == ([("quick", 2)], True)
    held.commit()
    quick = rows.redeploy(quick, description="4")
    rest, token = read_all(server, token, 1)
    assert rest == [("quick", 3), ("quick", 4)]
    late, token = read_all(server, token, 1)
    assert ("slow", 2) in late
    assert read_all(server, token, 1)[0] == []


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_writers_all_at_once_and_a_reader_beside_them(database: Database, rows: Rows, limit: int) -> None:
    """R-17: whatever overlaps, the reader is told every revision."""
    triggers = [own_task(rows, f"tick-{number}") for number in range(4)]
    ended = threading.Event()
    told: set[tuple[str, int]] = set()

    def write(trigger: Trigger) -> None:
        for number in range(2, 17):
            trigger = rows.redeploy(trigger, description=str(number))

    def write_all() -> None:
        try:
            at_once([lambda trigger=trigger: write(trigger) for trigger in triggers])
        finally:
            ended.set()

    def follow() -> None:
        token, chance = BEGINNING, random.Random(limit)
        is_last = False
        while not is_last:
            is_last = ended.is_set()
            part, token = read_all(database, token, limit if chance.random() < 0.8 else limit + 1)
            told.update(part)

    at_once([write_all, follow])
    assert told == {(f"tick-{number}", revision) for number in range(4) for revision in range(1, 17)}


def test_a_position_that_the_database_has_not_come_to_begins_anew(database: Database, rows: Rows) -> None:
    """R-17: after an older copy was restored, everything is told again rather than something missed."""
    rows.task()
    rows.trigger()
    ahead = str(feed.Position(0, 2**40, 0)) if database.is_sqlite else str(feed.Position(2**60, 0, 2**60))
    told, token = read_all(database, ahead)
    assert told == [("morning", 1)]
    assert read_all(database, token)[0] == []


def test_the_end_is_where_the_next_change_begins(database: Database, rows: Rows) -> None:
    """R-17, L-03: who reads everything else after asking for the end misses nothing and is told nothing old."""
    rows.task()
    trigger = rows.trigger()
    with database.read() as connection:
        token = str(feed.end(connection))
    assert read_all(database, token)[0] == []
    rows.redeploy(trigger, description="x")
    assert read_all(database, token)[0] == [("morning", 2)]


@pytest.mark.parametrize(
    "token", ["", "x", "1.2", "1.2.3.4", "-1.0.0", "1.-2.3", " 1.2.3", "0.9999999999999999999.0", "٣.٣.٣", "1.2.3\n"]
)
def test_what_is_no_position(token: str) -> None:
    """R-17: refused by name."""
    with pytest.raises(Invalid) as refused:
        feed.Position.parse(token)
    assert refused.value.errors[0].path == "after"

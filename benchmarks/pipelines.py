"""Transactions per second that lock, append, update and summarise as a deploy does: sent by our pipeline, by psycopg's
`Connection.pipeline()`, and one statement after another; on one connection and on eight.

All three send the same statements over bare connections, and have the server prepare them. Commits
do not wait for the disk, whose speed would hide what is compared here: the work of the client and its waits.
"""

import hashlib
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from typing import Any

import psycopg

from benchmarks.ratio import Ratio
from benchmarks.server import bare_url, fresh_database
from revisions.store.database import Database
from revisions.store.sessions import Statement, send

SECONDS = 1.5
ROUNDS = 5
CONNECTIONS = (1, 8)

_TABLES = """
CREATE TABLE bench_triggers
    (id int PRIMARY KEY, task int, revision int, active bool, spec text, hash text, at timestamptz);
CREATE TABLE bench_revisions (id int, revision int, actor text, spec text, hash text, at timestamptz);
CREATE TABLE bench_tasks (id int PRIMARY KEY, total int, active int);
INSERT INTO bench_tasks SELECT n, 0, 0 FROM generate_series(1, 8) n;
INSERT INTO bench_triggers SELECT n, n, 1, true, repeat('x', 500), repeat('0', 64), clock_timestamp()
FROM generate_series(1, 8) n
"""
_TASK = "SELECT * FROM bench_tasks WHERE id = {} FOR NO KEY UPDATE"
_LOCK = "SELECT * FROM bench_triggers WHERE id = {} FOR NO KEY UPDATE"
_TIME = "SELECT clock_timestamp()"
_APPEND = "INSERT INTO bench_revisions VALUES ({}, {}, {}, {}, {}, {})"
_UPDATE = "UPDATE bench_triggers SET revision = {}, spec = {}, hash = {}, at = {} WHERE id = {}"
_SUMMARY = """UPDATE bench_tasks SET (total, active) =
    (SELECT count(*), count(*) FILTER (WHERE active) FROM bench_triggers WHERE task = {}) WHERE id = {}"""
_SPEC, _HASH = "x" * 500, "0" * 64

Sent = Sequence[tuple[str, Sequence[Any]]]


def measure() -> list[Ratio]:
    """Return, for each number of connections, ours against both others: medians of alternating rounds."""
    with fresh_database() as database, psycopg.connect(bare_url(database)) as connection:
        connection.execute(_TABLES)
        connection.commit()
        return [ratio for number in CONNECTIONS for ratio in _compare(database, number)]


def _compare(database: Database, number: int) -> list[Ratio]:
    kinds = (_OurPipeline, _PsycopgPipeline, _OneByOne)
    options = "-c synchronous_commit=off"
    deploys = [
        [kind(psycopg.connect(bare_url(database), options=options), place + 1) for place in range(number)]
        for kind in kinds
    ]
    rates: list[list[float]] = [[] for _ in kinds]
    for _ in range(ROUNDS):
        for place, group in enumerate(deploys):
            rates[place].append(_rate([one.deploy for one in group]))
    for group in deploys:
        for one in group:
            one.connection.close()
    ours, pipelined, single = (sorted(each)[ROUNDS // 2] for each in rates)
    on = f"on {number} connection{'s' if number > 1 else ''}"
    return [
        Ratio(f"our pipeline against psycopg's {on}", ours, pipelined, goal=1.4),
        Ratio(f"our pipeline against one by one {on}", ours, single, goal=1.2),
    ]


def _rate(deploys: Sequence[Callable[[], None]]) -> float:
    """Calls per second, each function in a thread of its own."""
    made = [0] * len(deploys)
    end = time.monotonic() + SECONDS

    def work(place: int) -> None:
        while time.monotonic() < end:
            deploys[place]()
            made[place] += 1

    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(deploys))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(made) / SECONDS


@dataclass
class _Deploys:
    """One trigger that is changed again and again on a connection of its own; subclasses send the statements."""

    connection: psycopg.Connection[Any]
    number: int

    def deploy(self) -> None:
        _, [trigger], [(now,)] = self.read([(_TASK, [self.number]), (_LOCK, [self.number]), (_TIME, [])])
        revision = trigger[2] + 1
        self.write(
            [
                (_APPEND, [self.number, revision, "ann", _SPEC, _HASH, now]),
                (_UPDATE, [revision, _SPEC, _HASH, now, self.number]),
                (_SUMMARY, [self.number, self.number]),
            ]
        )

    def read(self, sent: Sent) -> list[list[Any]]:
        """Begin a transaction, and return the rows of each statement."""
        raise NotImplementedError

    def write(self, sent: Sent) -> None:
        """Run the statements and commit."""
        raise NotImplementedError


class _OneByOne(_Deploys):
    def read(self, sent: Sent) -> list[list[Any]]:
        return [self.connection.execute(_psycopg(text), values, prepare=True).fetchall() for text, values in sent]

    def write(self, sent: Sent) -> None:
        for text, values in sent:
            self.connection.execute(_psycopg(text), values, prepare=True)
        self.connection.commit()


class _PsycopgPipeline(_Deploys):
    def read(self, sent: Sent) -> list[list[Any]]:
        with self.connection.pipeline():
            cursors = [self.connection.execute(_psycopg(text), values, prepare=True) for text, values in sent]
        return [cursor.fetchall() for cursor in cursors]

    def write(self, sent: Sent) -> None:
        with self.connection.pipeline():
            for text, values in sent:
                self.connection.execute(_psycopg(text), values, prepare=True)
            self.connection.commit()


@dataclass
class _OurPipeline(_Deploys):
    prepared: set[bytes] = field(default_factory=set)

    def read(self, sent: Sent) -> list[list[Any]]:
        return self._send([("BEGIN", []), *sent])[1:]

    def write(self, sent: Sent) -> None:
        self._send([*sent, ("COMMIT", [])])

    def _send(self, sent: Sent) -> list[list[Any]]:
        return send(self.connection, self.prepared, *((_ours(text), values) for text, values in sent))


@cache
def _psycopg(text: str) -> str:
    """The statement with psycopg's placeholders."""
    return text.replace("{}", "%s")


@cache
def _ours(text: str) -> Statement:
    """The statement with PostgreSQL's placeholders, under a name of its own."""
    places = count(1)
    numbered = re.sub(r"\{\}", lambda _: f"${next(places)}", text)
    return Statement(hashlib.md5(text.encode()).hexdigest().encode(), numbered.encode(), tuple)

"""Logs: the head and the tail are kept, the middle is dropped."""

import random

import pytest
from sqlalchemy import insert

from revisions.store import logs
from revisions.store.database import Database
from revisions.store.logs import HEAD, TAIL, LogPiece, LogText
from revisions.store.run_tables import run_logs

LOG = random.Random(17).randbytes(2 * 2**20 + 1234)


def store(database: Database, log: bytes, step: int) -> None:
    """Store a log that grows by `step` bytes at a time, as a worker does."""
    stored = 0
    for size in [*range(step, len(log), step), len(log)]:
        pieces = [LogPiece(start, log[start:end]) for start, end in logs.wanted(stored, size, HEAD + TAIL)]
        with database.write() as connection:
            logs.append(connection, {("r1", 1): pieces})
            stored = logs.sizes(connection, [("r1", 1), ("r2", 1)])["r1", 1]
        assert stored == size


@pytest.mark.parametrize("step", [10_000, 70_000, 300_000, len(LOG)])
def test_head_and_tail_of_two_mebibytes_are_kept(database: Database, step: int) -> None:
    """X-17: the first and last 512 KiB and the number of dropped bytes, for any size of steps."""
    if step == 10_000 and not database.is_sqlite:
        pytest.skip("slow, and covered on SQLite")
    store(database, LOG, step)
    with database.read() as connection:
        assert logs.read(connection, "r1", 1) == LogText(LOG[:HEAD], len(LOG) - HEAD - TAIL, LOG[-TAIL:])
        kept = sum(len(piece.data) for piece in logs.read_from(connection, "r1", 1, 0))
    assert kept <= HEAD + TAIL + 64 * 1024


def test_a_small_log_is_kept_whole(database: Database) -> None:
    """X-17: no byte is dropped or changed, also when the log is not valid UTF-8."""
    store(database, b"\x00\xff\xfe half", 3)
    with database.read() as connection:
        assert logs.read(connection, "r1", 1) == LogText(b"\x00\xff\xfe half", 0, b"")
        assert logs.read(connection, "r1", 2) == LogText(b"", 0, b"")


def test_a_log_as_long_as_head_and_tail_is_kept_whole(database: Database) -> None:
    """X-17: the tail begins where the head ends."""
    store(database, LOG[: HEAD + TAIL], 400_000)
    with database.read() as connection:
        text = logs.read(connection, "r1", 1)
    assert text.dropped == 0
    assert text.head + text.tail == LOG[: HEAD + TAIL]


def test_a_log_is_read_from_any_position(database: Database) -> None:
    """X-17: `--follow` reads the bytes from its position on."""
    store(database, LOG[:1000], 100)
    with database.read() as connection:
        assert b"".join(piece.data for piece in logs.read_from(connection, "r1", 1, 250)) == LOG[250:1000]
        assert logs.read_from(connection, "r1", 1, 250)[0].position == 250
        assert logs.read_from(connection, "r1", 1, 1000) == []


def test_the_head_is_sent_before_the_tail() -> None:
    """X-17: also when a limit allows only some of the missing bytes."""
    assert logs.wanted(0, 5 * HEAD, 1000) == [(0, 1000)]
    assert logs.wanted(HEAD - 10, 5 * HEAD, 1000) == [(HEAD - 10, HEAD), (4 * HEAD, 4 * HEAD + 990)]
    assert logs.wanted(5 * HEAD, 5 * HEAD, 1000) == []


def test_head_and_tail_are_half_a_mebibyte_each() -> None:
    """X-17: the sizes are documented."""
    assert (HEAD, TAIL) == (524_288, 524_288)


def test_the_tail_begins_after_the_last_gap(database: Database) -> None:
    """X-17: pieces before a gap belong to the middle, which the next piece drops; they are not part of the tail."""
    size = 4 * HEAD
    pieces = [LogPiece(0, b"h" * HEAD), LogPiece(HEAD + 100, b"m" * 50), LogPiece(size - 20, b"t" * 20)]
    with database.write() as connection:
        connection.execute(
            insert(run_logs),
            [{"run_id": "r1", "attempt": 1, "position": piece.position, "data": piece.data} for piece in pieces],
        )
    with database.read() as connection:
        assert logs.read(connection, "r1", 1) == LogText(b"h" * HEAD, size - HEAD - 20, b"t" * 20)
        assert logs.read_from(connection, "r1", 1, HEAD) == pieces[1:], "the positions show the gap"

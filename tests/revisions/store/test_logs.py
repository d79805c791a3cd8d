"""Logs: head and tail kept, the middle dropped."""

import random

import pytest
from sqlalchemy import insert

from revisions.store import logs
from revisions.store.database import Database
from revisions.store.logs import HEAD, TAIL, LogPiece, LogText
from revisions.store.run_tables import run_logs

LOG = random.Random(17).randbytes(2 * 2**20 + 1234)


def store(database: Database, log: bytes, step: int) -> None:
    """Appends a log that grows by `step` bytes at a time, as a worker does."""
    stored = 0
    for size in [*range(step, len(log), step), len(log)]:
        pieces = [LogPiece(start, log[start:end]) for start, end in logs.wanted(stored, size, HEAD + TAIL)]
        with database.write() as connection:
            logs.append(connection, {("r1", 1): pieces})
            stored = logs.sizes(connection, [("r1", 1), ("r2", 1)])["r1", 1]
        assert stored == size


@pytest.mark.parametrize("step", [10_000, 70_000, 300_000, len(LOG)])
def test_of_two_mebibytes_head_and_tail_are_kept(database: Database, step: int) -> None:
    """X-17: the first and the last 512 KiB, and how much lies between, however the log grew."""
    if step == 10_000 and not database.is_sqlite:
        pytest.skip("the same, slowly")
    store(database, LOG, step)
    with database.read() as connection:
        assert logs.read(connection, "r1", 1) == LogText(LOG[:HEAD], len(LOG) - HEAD - TAIL, LOG[-TAIL:])
        kept = sum(len(piece.data) for piece in logs.read_from(connection, "r1", 1, 0))
    assert kept <= HEAD + TAIL + 64 * 1024


def test_a_small_log_is_kept_whole(database: Database) -> None:
    """X-17: nothing is dropped, and bytes are bytes."""
    store(database, b"\x00\xff\xfe half", 3)
    with database.read() as connection:
        assert logs.read(connection, "r1", 1) == LogText(b"\x00\xff\xfe half", 0, b"")
        assert logs.read(connection, "r1", 2) == LogText(b"", 0, b"")


def test_a_log_just_as_long_as_what_is_kept(database: Database) -> None:
    """X-17: head and tail meet."""
    store(database, LOG[: HEAD + TAIL], 400_000)
    with database.read() as connection:
        text = logs.read(connection, "r1", 1)
    assert text.dropped == 0
    assert text.head + text.tail == LOG[: HEAD + TAIL]


def test_following_begins_anywhere(database: Database) -> None:
    """X-17: what is stored from a position on, for `--follow`."""
    store(database, LOG[:1000], 100)
    with database.read() as connection:
        assert b"".join(piece.data for piece in logs.read_from(connection, "r1", 1, 250)) == LOG[250:1000]
        assert logs.read_from(connection, "r1", 1, 250)[0].position == 250
        assert logs.read_from(connection, "r1", 1, 1000) == []


def test_catching_up_in_small_steps_keeps_the_head_first() -> None:
    """X-17: a limit never lets the tail overtake the head."""
    assert logs.wanted(0, 5 * HEAD, 1000) == [(0, 1000)]
    assert logs.wanted(HEAD - 10, 5 * HEAD, 1000) == [(HEAD - 10, HEAD), (4 * HEAD, 4 * HEAD + 990)]
    assert logs.wanted(5 * HEAD, 5 * HEAD, 1000) == []


def test_head_and_tail_are_half_a_mebibyte_each() -> None:
    """X-17: operators rely on the number."""
    assert (HEAD, TAIL) == (524_288, 524_288)


def test_the_tail_ends_at_the_first_gap(database: Database) -> None:
    """X-17: pieces before a gap belong to the middle, which is dropped with the next piece; they are not shown."""
    size = 4 * HEAD
    pieces = [LogPiece(0, b"h" * HEAD), LogPiece(HEAD + 100, b"m" * 50), LogPiece(size - 20, b"t" * 20)]
    with database.write() as connection:
        connection.execute(
            insert(run_logs),
            [{"run_id": "r1", "attempt": 1, "position": piece.position, "data": piece.data} for piece in pieces],
        )
    with database.read() as connection:
        assert logs.read(connection, "r1", 1) == LogText(b"h" * HEAD, size - HEAD - 20, b"t" * 20)
        assert logs.read_from(connection, "r1", 1, HEAD) == pieces[1:], "whoever follows sees the gap in the positions"

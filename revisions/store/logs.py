"""Output of runs as bytes, by attempt: the first and the last 512 KiB of each (X-17)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sqlalchemy import Connection, bindparam, delete, func, insert, select, tuple_

from revisions.store.run_tables import run_logs

HEAD = TAIL = 512 * 1024
_CHUNK = 64 * 1024
"""Most bytes of a row, and so the most that is stored beyond the tail until the next row comes."""


_DROP_MIDDLE = delete(run_logs).where(
    run_logs.c.run_id == bindparam("where_run"),
    run_logs.c.attempt == bindparam("where_attempt"),
    run_logs.c.position >= HEAD,
    run_logs.c.position + func.length(run_logs.c.data) <= bindparam("tail_from"),
)


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Bytes of a log, beginning at `position`."""

    position: int
    data: bytes

    @property
    def end(self) -> int:
        return self.position + len(self.data)


@dataclass(frozen=True, slots=True)
class LogText:
    """A log; `dropped` bytes between head and tail were not kept."""

    head: bytes
    dropped: int
    tail: bytes


def wanted(stored: int, size: int, limit: int) -> list[tuple[int, int]]:
    """Return the ranges [from, to), `limit` bytes at most, to append to a log stored up to `stored` and now `size`
    long.

    Bytes that would be dropped at once are left out.
    """
    tail_from = max(HEAD, size - TAIL)
    ranges = [(stored, min(size, HEAD)), (max(stored, tail_from), size)]
    chosen = []
    for start, end in ranges:
        if start < end and limit > 0:
            chosen.append((start, min(end, start + limit)))
            limit -= end - start
    return chosen


def unwanted(size: int, reach: int) -> tuple[int, int]:
    """Return the range [from, to) that `wanted` never returns again for a log of `size` bytes, nor within `reach` of
    it.
    """
    return HEAD + reach, size - TAIL - reach


def sizes(connection: Connection, attempts: Collection[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Return the position up to which each log is stored, by (run id, attempt)."""
    statement = (
        select(run_logs.c.run_id, run_logs.c.attempt, func.max(run_logs.c.position + func.length(run_logs.c.data)))
        .where(tuple_(run_logs.c.run_id, run_logs.c.attempt).in_(list(attempts)))
        .group_by(run_logs.c.run_id, run_logs.c.attempt)
    )
    return {(row[0], row[1]): row[2] for row in connection.execute(statement)} if attempts else {}


def append(connection: Connection, printed: Mapping[tuple[str, int], Sequence[LogPiece]]) -> None:
    """Store new pieces of logs by (run id, attempt), and delete what now lies between head and tail.

    The caller holds the claims.
    """
    rows = [
        {"run_id": run_id, "attempt": attempt, "position": piece.position + start, "data": piece.data[start:end]}
        for (run_id, attempt), pieces in printed.items()
        for piece in pieces
        for start, end in pairwise(_cuts(piece))
    ]
    if not rows:
        return
    connection.execute(insert(run_logs), rows)
    long = [
        {"where_run": run_id, "where_attempt": attempt, "tail_from": pieces[-1].end - TAIL}
        for (run_id, attempt), pieces in printed.items()
        if pieces and pieces[-1].end > HEAD + TAIL
    ]
    if long:
        connection.execute(_DROP_MIDDLE, long)


def read(connection: Connection, run_id: str, attempt: int) -> LogText:
    """Return head and tail of an attempt's log."""
    pieces = _pieces(connection, run_id, attempt, 0)
    end = pieces[-1].end if pieces else 0
    head = b"".join(piece.data for piece in pieces if piece.position < HEAD)
    kept: list[bytes] = []
    begin = end
    for piece in reversed(pieces):
        if piece.position < HEAD or piece.end != begin:  # beyond a gap is what was not dropped yet
            break
        kept.append(piece.data)
        begin = piece.position
    tail = b"".join(reversed(kept))[-TAIL:]
    return LogText(head, end - len(head) - len(tail), tail)


def read_from(connection: Connection, run_id: str, attempt: int, position: int) -> list[LogPiece]:
    """Return the stored pieces from a position on; a gap between pieces was dropped."""
    found = _pieces(connection, run_id, attempt, position)
    return [
        LogPiece(max(position, piece.position), piece.data[max(0, position - piece.position) :])
        for piece in found
        if piece.end > position
    ]


def discard(connection: Connection, run_id: str, attempt: int) -> None:
    """Delete the log of an attempt that begins anew."""
    connection.execute(delete(run_logs).where(run_logs.c.run_id == run_id, run_logs.c.attempt == attempt))


def _pieces(connection: Connection, run_id: str, attempt: int, position: int) -> list[LogPiece]:
    statement = (
        select(run_logs.c.position, run_logs.c.data)
        .where(run_logs.c.run_id == run_id, run_logs.c.attempt == attempt, run_logs.c.position > position - _CHUNK)
        .order_by(run_logs.c.position)
    )
    return [LogPiece(row.position, bytes(row.data)) for row in connection.execute(statement)]


def _cuts(piece: LogPiece) -> list[int]:
    """Return where a piece is split into rows: each a chunk at most, and none across the end of the head."""
    cuts = set(range(0, len(piece.data), _CHUNK)) | {len(piece.data)}
    if piece.position < HEAD < piece.end:
        cuts.add(HEAD - piece.position)
    return sorted(cuts)

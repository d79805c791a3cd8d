"""Export the database as lines of JSON, and import such an export into an empty database (R-10).

An import writes everything or nothing. It verifies all chains before it commits.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from reconcile.observations.observation import Observations, Progress
from reconcile.observations.specs import HistoryImported
from reconcile.triggers.history.verify import refuse_broken, walk_histories
from revisions.errors import Conflict, Fault, Invalid
from revisions.history import checkpoints
from revisions.history.chain_breaks import BreakKind, current_row
from revisions.history.checkpoints import PrivateKey, PublicKey
from revisions.store import history_rows, installations, whole_tables
from revisions.store.database import Connection, Database
from revisions.store.tables import SCHEMA

BATCH = 1_000
"""Rows that one statement inserts."""
FORMAT = 1
_PATIENCE_SECONDS = 300
"""Longest pause of the reader of an export; nothing is locked meanwhile."""


@dataclass(frozen=True, slots=True)
class Imported:
    """Result of an import: rows by table, number of triggers, and the key that signed the export.

    `is_pinned` is True when the caller named the key that was expected.
    """

    counts: Mapping[str, int]
    triggers: int
    signed_by: PublicKey | None
    is_pinned: bool


def export_database(database: Database, key: PrivateKey | None = None, *, unverified: bool = False) -> Iterator[bytes]:
    """Yield the export in parts of several lines, all of one state of the database.

    All chains are verified before the first part. Raises Conflict with the first break. With `unverified` they are not
    verified, and the export is not signed either, even if a key is given.
    """
    sha256, counts = hashlib.sha256(), dict.fromkeys(whole_tables.MOVED, 0)
    with database.read() as connection:
        history_rows.snapshot(connection, patience_seconds=_PATIENCE_SECONDS)
        if not unverified:
            refuse_broken(connection, "nothing was exported")
        heads = checkpoints.statement(history_rows.heads(connection), database.clock.now(connection), SCHEMA)
        signed = checkpoints.signed(heads, key) if key and not unverified else {"heads": heads}
        for part in _parts(connection, signed, counts):
            sha256.update(part)
            yield part
    yield _line({"counts": counts, "sha256": sha256.hexdigest()})


def import_database(
    database: Database,
    observations: Observations,
    file: BinaryIO,
    actor: str,
    expected: PublicKey | None = None,
    *,
    must_be_signed: bool = False,
    progress: Progress = lambda done, total: None,
) -> Imported:
    """Import a file that can be read twice; a signature in it must be made with the `expected` key.

    Raises Invalid for a file that is no whole export, was altered, or has another schema, and Conflict for a database
    that is in use.
    """
    heads, signer, counts = _checked(file, expected)
    if signer is None and must_be_signed:
        raise _refused(f"is not signed, and a signature of {expected} was expected")
    if heads["schema"] != SCHEMA:
        hint = "import it with the release that exported it, then upgrade that database"
        raise Invalid.at("export", f"is of schema {heads['schema']}, this release works with {SCHEMA}", hint)
    with database.write() as connection:
        history_rows.lift_transaction_timeout(connection)
        whole_tables.lock_out_writers(connection)
        if used := whole_tables.filled_tables(connection):
            detail = f"{database} is in use: there is something in {', '.join(used)}"
            hint = "import into a database that `triggerctl db upgrade` has just made"
            raise Conflict(detail, errors=[Fault("database", detail, hint)])
        file.seek(0)
        # The imported installation id replaces this one: work that goes on elsewhere is known under it.
        installations.remove(connection)
        _insert_rows(connection, file, sum(counts.values()), progress)
        triggers = _insert_current_rows(connection)
        if checkpoints.heads_digest(history_rows.heads(connection)) != heads["digest"]:
            raise _refused("holds other heads than it says")
    observations.emit(HistoryImported(actor, counts))
    return Imported(counts, triggers, signer, signer is not None and expected is not None)


def _parts(connection: Connection, first_line: Mapping[str, Any], counts: dict[str, int]) -> Iterator[bytes]:
    """Yield all lines but the last, and count the rows of each table in `counts`."""
    yield _line({"export": FORMAT, **first_line})
    for name, table in whole_tables.MOVED.items():
        yield _line({"table": name, "columns": [column.name for column in table.c]})
        for page in whole_tables.rows(connection, table):
            counts[name] += len(page)
            yield b"".join(map(_line, page))


def _line(value: Mapping[str, Any] | list[Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _checked(file: BinaryIO, expected: PublicKey | None) -> tuple[dict[str, Any], PublicKey | None, dict[str, int]]:
    """Check the whole file; return the statement about the heads, the key that signed it, and the rows by table.

    Raises Invalid.
    """
    file.seek(0)
    sha256, first, last = hashlib.sha256(), file.readline(), b""
    for line in file:  # the last line is not part of the checksum that it holds
        sha256.update(last or first)
        last = line
    header, trailer = _object(first), _object(last)
    if type(header.get("export")) is not int:
        raise _refused("does not begin like one")
    if header["export"] != FORMAT:
        raise _refused(f"is of format {header['export']}, this release reads {FORMAT}")
    if not isinstance(trailer.get("counts"), dict) or "sha256" not in trailer:
        raise _refused("has no end: it was cut off")
    if trailer["sha256"] != sha256.hexdigest():
        raise _refused("was altered: its bytes are not those that were counted")
    if set(trailer["counts"]) != set(whole_tables.MOVED):
        raise _refused("holds other tables than this release knows")
    signer = checkpoints.check_signature(header, expected) if "signature" in header else None
    heads = header.get("checkpoint" if signer else "heads")
    if not isinstance(heads, dict) or not {"schema", "digest"} <= heads.keys():
        raise _refused("does not say what it holds")
    return heads, signer, trailer["counts"]


def _insert_rows(connection: Connection, file: BinaryIO, total: int, progress: Progress) -> None:
    done = 0
    for name, columns, batch in _batches(file):
        table = whole_tables.MOVED.get(name)
        if table is None or sorted(columns) != sorted(column.name for column in table.c):
            raise _refused(f"holds a table {name} that this release does not know like that")
        try:
            all_new = whole_tables.write(connection, table, columns, batch)
        except (ValueError, TypeError) as error:
            raise _refused(f"holds a row of {name} that cannot be read: {error}") from None
        if not all_new:
            raise _refused(f"holds a row of {name} twice")
        if name == "trigger_revisions":
            trigger_id, revision = columns.index("trigger_id"), columns.index("revision")
            history_rows.announce(connection, [(row[trigger_id], row[revision]) for row in batch])
        done += len(batch)
        progress(done, total)


def _batches(file: BinaryIO) -> Iterator[tuple[str, list[str], list[list[Any]]]]:
    """Yield table, columns and rows, a batch at a time, from a file that was checked."""
    name, columns, batch = "", list[str](), list[list[Any]]()
    next(file)
    for line in file:
        if line.startswith(b"["):
            batch.append(json.loads(line))
        if batch and (len(batch) == BATCH or not line.startswith(b"[")):
            yield name, columns, batch
            batch = []
        if not line.startswith(b"["):
            header = _object(line)
            name, columns = header.get("table", ""), header.get("columns", [])


def _insert_current_rows(connection: Connection) -> int:
    """Verify every chain and insert the current row it ends in, then the summaries; return the number of rows."""
    status = history_rows.status_revisions(connection)
    batch: list[dict[str, Any]] = []
    number = 0
    for walk, chain_break, _ in walk_histories(connection):
        if chain_break and chain_break.what is not BreakKind.CURRENT:
            key, revision = chain_break.key, chain_break.revision
            raise _refused(f"cannot be trusted: {key}, revision {revision}: {chain_break.message}")
        assert walk.current is not None
        if status.get(walk.trigger_id) != walk.revision:
            raise _refused(f"holds no status of {walk.current.key} at revision {walk.revision}")
        batch.append(current_row(walk.current))
        number += 1
        if len(batch) == BATCH:
            _insert_batch(connection, batch)
            batch = []
    _insert_batch(connection, batch)
    history_rows.summarise(connection, history_rows.summaries(connection))
    return number


def _insert_batch(connection: Connection, rows: list[dict[str, Any]]) -> None:
    if history_rows.insert_rows(connection, rows) != len(rows):
        raise _refused("holds two triggers of one name")


def _object(line: bytes) -> dict[str, Any]:
    """Return the JSON object of a line; empty for anything else."""
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _refused(message: str) -> Invalid:
    return Invalid.at("export", message, "take a file that `triggerctl export` wrote to its end")

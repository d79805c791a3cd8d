"""An export taken into an empty database: all of it or nothing, its chains walked before it counts."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from reconcile.observations.observation import Observations, Progress
from reconcile.observations.specs import HistoryImported
from reconcile.triggers.history.verify import refuse_broken, walk_all
from revisions.errors import Conflict, Fault, Invalid
from revisions.history import checkpoints
from revisions.history.chain_breaks import BreakKind, ChainBreak, Walk, current_row
from revisions.history.signing import PrivateKey, PublicKey
from revisions.store import history_rows, installations, whole_tables
from revisions.store.database import Connection, Database
from revisions.store.tables import SCHEMA

BATCH = 1_000


@dataclass(frozen=True, slots=True)
class Imported:
    """What was taken in: rows by table, triggers whose current row was made, and whose signature stood under it."""

    counts: Mapping[str, int]
    triggers: int
    signed_by: PublicKey | None
    is_pinned: bool


class Importing:
    """Takes an export in, in one transaction."""

    def __init__(self, database: Database, observations: Observations) -> None:
        self._database = database
        self._observations = observations

    def load(
        self,
        file: BinaryIO,
        actor: str,
        expected: PublicKey | None = None,
        *,
        must_be_signed: bool = False,
        progress: Progress = lambda done, total: None,
    ) -> Imported:
        """Takes in a file that can be read twice; `expected` is the key that a signature in it must be of.

        Raises Invalid for what is no whole export, was altered or does not fit, Conflict for a database in use.
        """
        said, signer, counts = _judged(file, expected)
        if signer is None and must_be_signed:
            raise _refused(f"is not signed, and a signature of {expected} was expected")
        if said["schema"] != SCHEMA:
            hint = "import it with the release that exported it, then upgrade that database"
            raise Invalid.at("export", f"is of schema {said['schema']}, this release works with {SCHEMA}", hint)
        with self._database.write() as connection:
            history_rows.lift_transaction_timeout(connection)
            whole_tables.lock_out_writers(connection)
            if held := whole_tables.filled_tables(connection):
                detail = f"{self._database} is in use: there is something in {', '.join(held)}"
                hint = "import into a database that `triggerctl db upgrade` has just made"
                raise Conflict(detail, errors=[Fault("database", detail, hint)])
            file.seek(0)
            installations.remove(connection)  # what is moved stays what it was: its work elsewhere is known by the id
            _write_rows(connection, file, sum(counts.values()), progress)
            triggers = _remake(connection)
            if checkpoints.heads_digest(history_rows.heads(connection)) != said["digest"]:
                raise _refused("holds other heads than it says")
        self._observations.emit(HistoryImported(actor, counts))
        return Imported(counts, triggers, signer, signer is not None and expected is not None)


def _judged(file: BinaryIO, expected: PublicKey | None) -> tuple[dict[str, Any], PublicKey | None, dict[str, int]]:
    """What the first line says of the heads and who signed it, and the counts of the last, once every byte is sound."""
    file.seek(0)
    sha256, first, last = hashlib.sha256(), file.readline(), b""
    for line in file:
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
    said = header.get("checkpoint" if signer else "heads")
    if not isinstance(said, dict) or not {"schema", "digest"} <= said.keys():
        raise _refused("does not say what it holds")
    return said, signer, trailer["counts"]


def _write_rows(connection: Connection, file: BinaryIO, total: int, progress: Progress) -> None:
    done = 0
    for name, columns, batch in _batches(file):
        table = whole_tables.MOVED.get(name)
        if table is None or sorted(columns) != sorted(column.name for column in table.c):
            raise _refused(f"holds a table {name} that this release does not know like that")
        try:
            is_new = whole_tables.write(connection, table, columns, batch)
        except (ValueError, TypeError) as error:
            raise _refused(f"holds a row of {name} that cannot be read: {error}") from None
        if not is_new:
            raise _refused(f"holds a row of {name} twice")
        if name == "trigger_revisions":
            trigger_id, revision = columns.index("trigger_id"), columns.index("revision")
            history_rows.announce(connection, [(row[trigger_id], row[revision]) for row in batch])
        done += len(batch)
        progress(done, total)


def _batches(file: BinaryIO) -> Iterator[tuple[str, list[str], list[list[Any]]]]:
    """Table, columns and some of its rows; the file is known to be whole."""
    name, columns, batch = "", list[str](), list[list[Any]]()
    next(file)
    for line in file:
        if line.startswith(b"["):
            batch.append(json.loads(line))
        if batch and (len(batch) == BATCH or not line.startswith(b"[")):
            yield name, columns, batch
            batch = []
        if not line.startswith(b"["):
            found = _object(line)
            name, columns = found.get("table", ""), found.get("columns", [])


def _remake(connection: Connection) -> int:
    """Walks every chain and writes the current row it ends in, then the summaries; answers how many rows."""
    status, waiting, made = history_rows.status_revisions(connection), list[dict[str, Any]](), 0

    def write() -> None:
        if history_rows.insert_rows(connection, waiting) != len(waiting):
            raise _refused("holds two triggers of one name")
        waiting.clear()

    def ended(walk: Walk, found: ChainBreak | None, _: object) -> None:
        nonlocal made
        if found and found.what is not BreakKind.CURRENT:
            raise _refused(f"cannot be trusted: {found.key}, revision {found.revision}: {found.message}")
        assert walk.current is not None
        if status.get(walk.trigger_id) != walk.revision:
            raise _refused(f"holds no status of {walk.current.key} at revision {walk.revision}")
        waiting.append(current_row(walk.current))
        made += 1
        if len(waiting) == BATCH:
            write()

    walk_all(connection, ended)
    write()
    history_rows.summarise(connection, history_rows.summaries(connection))
    return made


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}


def _refused(message: str) -> Invalid:
    return Invalid.at("export", message, "take a file that `triggerctl export` wrote to its end")


FORMAT = 1
_PATIENCE_SECONDS = 300
"""How long whoever reads the stream may pause; nothing is locked meanwhile."""


class Exporting:
    """Reads one state of the database as a stream; no row is held longer than its page."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def stream(self, key: PrivateKey | None = None, *, unverified: bool = False) -> Iterator[bytes]:
        """The export, in parts of some lines each; before the first, all chains are verified in the same state (R-10).

        Raises Conflict with the first break. What is exported `unverified` is not signed for, whatever the key.
        """
        sha256, counts = hashlib.sha256(), dict.fromkeys(whole_tables.MOVED, 0)
        with self._database.read() as connection:
            history_rows.snapshot(connection, patience_seconds=_PATIENCE_SECONDS)
            if not unverified:
                refuse_broken(connection, "nothing was exported")
            for part in self._parts(connection, None if unverified else key, counts):
                sha256.update(part)
                yield part
        yield _line({"counts": counts, "sha256": sha256.hexdigest()})

    def _parts(self, connection: Connection, key: PrivateKey | None, counts: dict[str, int]) -> Iterator[bytes]:
        said = checkpoints.statement(history_rows.heads(connection), self._database.clock.now(connection), SCHEMA)
        yield _line({"export": FORMAT, **(checkpoints.signed(said, key) if key else {"heads": said})})
        for name, table in whole_tables.MOVED.items():
            yield _line({"table": name, "columns": [column.name for column in table.c]})
            for page in whole_tables.rows(connection, table):
                counts[name] += len(page)
                yield b"".join(map(_line, page))


def _line(value: Mapping[str, Any] | list[Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

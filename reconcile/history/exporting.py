"""Everything that is true, as one stream of lines that another database can take in.

The first line says what it is and which heads it holds, signed where a key is configured; then each table's name and
columns, and a line for each row; the last counts them and bears the SHA-256 of all bytes before it, so that a stream
that was cut off is no export.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from reconcile.history.verifying import refuse_broken
from revisions import checkpoints
from revisions.signing import PrivateKey
from revisions.store import contents, histories
from revisions.store.database import Connection, Database
from revisions.store.tables import SCHEMA

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
        sha256, counts = hashlib.sha256(), dict.fromkeys(contents.MOVED, 0)
        with self._database.read() as connection:
            histories.snapshot(connection, patience_seconds=_PATIENCE_SECONDS)
            if not unverified:
                refuse_broken(connection, "nothing was exported")
            for part in self._parts(connection, None if unverified else key, counts):
                sha256.update(part)
                yield part
        yield _line({"counts": counts, "sha256": sha256.hexdigest()})

    def _parts(self, connection: Connection, key: PrivateKey | None, counts: dict[str, int]) -> Iterator[bytes]:
        said = checkpoints.statement(histories.heads(connection), self._database.clock.now(connection), SCHEMA)
        yield _line({"export": FORMAT, **(checkpoints.signed(said, key) if key else {"heads": said})})
        for name, table in contents.MOVED.items():
            yield _line({"table": name, "columns": [column.name for column in table.c]})
            for page in contents.rows(connection, table):
                counts[name] += len(page)
                yield b"".join(map(_line, page))


def _line(value: Mapping[str, Any] | list[Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

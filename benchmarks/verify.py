"""Verifying 100,000 revisions, against SHA-256 over the same bytes in memory."""

import hashlib
import time
from collections.abc import Callable
from itertools import groupby
from typing import Any

from sqlalchemy import bindparam

from benchmarks.histories import begin, prolong
from benchmarks.ratio import Ratio
from benchmarks.server import fresh_database
from benchmarks.subjects import trigger
from reconcile.triggers.history.verify import verify_histories
from revisions.history import chain
from revisions.history.chain import Row
from revisions.history.chain_breaks import Walk
from revisions.store import history_rows, schema
from revisions.store.database import Connection, Database
from revisions.store.tables import trigger_revisions, triggers

TRIGGERS, EACH = 100, 1_000
REVISIONS = TRIGGERS * EACH
ROUNDS = 5
SPEC: dict[str, Any] = {
    "description": "The weekday report of one client, as the manifest in the documentation writes it out",
    "input": {"region": "emea", "client": "client-7", "sections": ["traffic", "sales", "support"], "note": "x" * 400},
    "catchup": {"policy": "latest", "window": "7d"},
    "overlap": "skip",
    "retry": {"max_attempts": 3},
    "deactivate_after": 5,
}
"""About a kilobyte, a usual size of manifests."""


def measure() -> list[Ratio]:
    """Return the ratios of checking rows in memory (processor time) and of `verify` with reading them (wall time).

    Both are medians of five rounds, each with a baseline of its own.
    """
    with fresh_database() as database:
        _chained(database)
        with database.read() as connection:
            rows = [row for page in history_rows.pages(connection) for part in page for row in part]
        envelopes = [chain.text_of(row).encode() for row in rows]
        size = sum(map(len, envelopes)) // len(envelopes)
        name = f"verifying {REVISIONS:,} revisions of {size:,} bytes, in memory"
        walked = [_ratio(name, time.process_time, (_walk, rows), envelopes) for _ in range(ROUNDS)]
        name = "the same, read from PostgreSQL"
        verified = [_ratio(name, time.perf_counter, (_verify, database), envelopes) for _ in range(ROUNDS)]
    return [sorted(ratios, key=lambda ratio: ratio.value)[ROUNDS // 2] for ratios in (walked, verified)]


def _ratio(name: str, timer: Callable[[], float], ours: tuple[Callable[[Any], None], Any], bare: list[bytes]) -> Ratio:
    rates = []
    for work, subject in (ours, (_hash, bare)):
        began = timer()
        work(subject)
        rates.append(REVISIONS / (timer() - began))
    return Ratio(name, rates[0], rates[1], goal=0.3)


def _hash(envelopes: list[bytes]) -> None:
    for envelope in envelopes:
        hashlib.sha256(envelope).hexdigest()


def _walk(rows: list[Row]) -> None:
    for trigger_id, revisions in groupby(rows, key=lambda row: row[0]):
        assert Walk(trigger_id).extend(list(revisions)) is None


def _verify(database: Database) -> None:
    report = verify_histories(database)
    assert (report.is_sound, report.revisions) == (True, REVISIONS), report.breaks[:1]


def _chained(database: Database) -> None:
    """Create triggers whose chains verify: copy revisions, then compute their hashes and write them back."""
    begin(database, *(trigger(f"t{number}", **SPEC) for number in range(TRIGGERS)))
    for number in range(TRIGGERS):
        prolong(database, f"t{number}", EACH)
    with database.read() as connection:
        rows = [row for page in history_rows.pages(connection) for part in page for row in part]
    with database.write() as connection:
        schema.drop_guards(connection, "trigger_revisions")
        _write_links(connection, rows)
        schema.create_guards(connection, "trigger_revisions")


def _write_links(connection: Connection, rows: list[Row]) -> None:
    links, heads, previous = [], {}, chain.ORIGIN
    for row in rows:
        previous = chain.ORIGIN if row[1] == 1 else previous
        digest = chain.digest(chain.text_of((*row[:-2], previous, "")))
        links.append({"of_trigger": row[0], "of_revision": row[1], "previous_hash": previous, "hash": digest})
        heads[row[0]], previous = digest, digest
    is_one = (
        trigger_revisions.c.trigger_id == bindparam("of_trigger"),
        trigger_revisions.c.revision == bindparam("of_revision"),
    )
    connection.execute(trigger_revisions.update().where(*is_one), links)
    head = triggers.c.trigger_id == bindparam("of_trigger")
    connection.execute(
        triggers.update().where(head),
        [{"of_trigger": trigger_id, "hash": digest} for trigger_id, digest in heads.items()],
    )

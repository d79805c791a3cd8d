"""Verify histories: walk every hash chain from its first revision to the trigger's current row (R-10)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

from reconcile.observations.observation import Progress
from revisions.errors import Conflict, NotFound
from revisions.history import checkpoints
from revisions.history.chain import Row
from revisions.history.chain_breaks import BreakKind, ChainBreak, ChainHead, Walk, key_of
from revisions.history.checkpoints import Checkpoint, PrivateKey
from revisions.ids import TriggerKey
from revisions.store import history_rows, schema
from revisions.store import triggers as store
from revisions.store.database import Connection, Database
from revisions.store.tables import SCHEMA

MOST_BREAKS = 100
"""Broken triggers that a report names; further ones are only counted."""


@dataclass(slots=True)
class Report:
    """Number of triggers and revisions verified, and the first break of each broken trigger in the order found."""

    triggers: int = 0
    revisions: int = 0
    broken: int = 0
    breaks: list[ChainBreak] = field(default_factory=list)
    guards_missing: list[str] = field(default_factory=list)
    checkpoint: Checkpoint | None = None

    @property
    def is_sound(self) -> bool:
        return not self.broken and not self.guards_missing

    def add_break(self, chain_break: ChainBreak) -> None:
        self.broken += 1
        if len(self.breaks) < MOST_BREAKS:
            self.breaks.append(chain_break)


class WalkedHistory(NamedTuple):
    """A trigger's chain walked to its end: the first break, if there is one, and the current row, if there is one."""

    walk: Walk
    chain_break: ChainBreak | None
    current_row: Mapping[str, Any] | None


def verify_histories(
    database: Database,
    key: TriggerKey | None = None,
    checkpoint: Checkpoint | None = None,
    progress: Progress = lambda done, total: None,
) -> Report:
    """Verify all histories or one trigger's, against the heads of a checkpoint if one is given; changes nothing.

    One state of the database is read, a page at a time. Raises NotFound for a name that no trigger ever had.
    """
    report = Report(checkpoint=checkpoint)
    with database.read() as connection:
        history_rows.snapshot(connection)
        ids = None if key is None else _ids_of(connection, key, checkpoint)
        signed = {
            trigger_id: head
            for trigger_id, head in (checkpoint.heads if checkpoint else {}).items()
            if ids is None or trigger_id in ids
        }
        missing = dict(signed)
        report.guards_missing = schema.missing_guards(connection)
        for walk, chain_break, _ in walk_histories(connection, ids=ids, signed=signed, progress=progress):
            report.triggers += 1
            report.revisions += walk.revision
            if chain_break:
                report.add_break(chain_break)
            missing.pop(walk.trigger_id, None)
        for row in history_rows.rows_without_history(connection, ids):
            report.triggers += 1
            report.add_break(_no_revisions(row))
            missing.pop(row["trigger_id"], None)
        for head in sorted(missing.values()):
            report.add_break(
                ChainBreak(head.trigger_id, head.key, head.revision, BreakKind.CHECKPOINT, None, head.hash, None)
            )
    return report


def sign_checkpoint(
    database: Database,
    key: PrivateKey,
    *,
    unverified: bool = False,
    progress: Progress = lambda done, total: None,
) -> dict[str, Any]:
    """Return a signed checkpoint of the heads of all triggers, whose chains are verified in the same state (R-10).

    Raises Conflict with the first break; with `unverified` the heads are signed without a look at their chains.
    """
    with database.read() as connection:
        history_rows.snapshot(connection)
        if not unverified:
            refuse_broken(connection, "nothing was signed", progress)
        heads = history_rows.heads(connection)
        now = database.clock.now(connection)
    return checkpoints.document(heads, now, SCHEMA, key)


def refuse_broken(connection: Connection, refusal: str, progress: Progress = lambda done, total: None) -> None:
    """Verify all histories. Raises Conflict at the first break; `refusal` tells what was not done because of it."""
    for _, chain_break, _ in walk_histories(connection, progress=progress):
        if chain_break:
            raise untrusted_history(refusal, chain_break)
    for row in history_rows.rows_without_history(connection, None):
        raise untrusted_history(refusal, _no_revisions(row))


def untrusted_history(refusal: str, chain_break: ChainBreak) -> Conflict:
    """Return the refusal to build on a broken history, with the way to repair it."""
    detail = f"{refusal}: {chain_break.key}, revision {chain_break.revision}: {chain_break.message}"
    only_current = chain_break.what is BreakKind.CURRENT and chain_break.field not in (None, "revision")
    repair = (
        "`triggerctl rebuild` makes it right" if only_current else "put the history back from a backup or an export"
    )
    return Conflict.hinted("history", detail, f"`triggerctl verify` shows what is broken; {repair}")


def walk_histories(
    connection: Connection,
    *,
    ids: Sequence[str] | None = None,
    signed: Mapping[str, ChainHead] | None = None,
    progress: Progress = lambda done, total: None,
) -> Iterator[WalkedHistory]:
    """Walk the chain of each trigger that has revisions, in the order of ids, holding one page in memory.

    `ids` narrows the walk to some triggers; `signed` are the heads that a checkpoint vouches for, by id.
    """
    total, done = history_rows.count(connection) if ids is None else 0, 0
    walks: list[tuple[Walk, ChainBreak | None]] = []
    for page in history_rows.pages(connection, ids):
        # A page must be read to its end before the connection is used for anything else, so walks are yielded after it.
        for part in page:
            for trigger_id, revisions in _by_trigger(part):
                if not walks or trigger_id != walks[-1][0].trigger_id:
                    walks.append((Walk(trigger_id, (signed or {}).get(trigger_id)), None))
                walk, chain_break = walks[-1]
                walks[-1] = walk, chain_break or walk.extend(revisions)
        yield from _ended(connection, walks[:-1])
        walks = walks[-1:]  # the next page may hold more of the last trigger
        done += page.size
        progress(done, max(total, done))
    yield from _ended(connection, walks)


def _ended(connection: Connection, walks: Sequence[tuple[Walk, ChainBreak | None]]) -> Iterator[WalkedHistory]:
    """End walks at the current rows of their triggers."""
    rows = history_rows.current_rows(connection, (walk.trigger_id for walk, _ in walks)) if walks else {}
    for walk, chain_break in walks:
        row = rows.get(walk.trigger_id)
        yield WalkedHistory(walk, chain_break or walk.end(row), row)


def _by_trigger(part: list[Row]) -> Iterator[tuple[str, list[Row]]]:
    if part[0][0] == part[-1][0]:
        yield part[0][0], part
        return
    for trigger_id, rows in groupby(part, key=lambda row: row[0]):
        yield trigger_id, list(rows)


def _ids_of(connection: Connection, key: TriggerKey, checkpoint: Checkpoint | None) -> list[str]:
    """Return the ids that a name stands for, by the current row, the checkpoint, or else the revisions.

    Raises NotFound.
    """
    current = store.get(connection, key)
    heads = checkpoint.heads.values() if checkpoint else ()
    ids = {head.trigger_id for head in heads if head.key == key} | ({current.trigger_id} if current else set())
    if not ids and not (ids := history_rows.ids_named(connection, key)):
        raise NotFound.trigger(key)
    return sorted(ids)


def _no_revisions(row: Mapping[str, Any]) -> ChainBreak:
    return ChainBreak(row["trigger_id"], key_of(row), 1, BreakKind.NUMBER, None, 1, None)

"""Whether histories can be trusted: every chain walked from its first revision to its current row (R-10)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from reconcile.observations.observation import Progress
from revisions.errors import Conflict, NotFound
from revisions.history import checkpoints
from revisions.history.chain import Row
from revisions.history.chain_breaks import BreakKind, ChainBreak, ChainHead, Walk, key_of
from revisions.history.checkpoints import Checkpoint
from revisions.history.signing import PrivateKey
from revisions.history.triggers import Trigger
from revisions.ids import TriggerKey
from revisions.store import guards, history_rows
from revisions.store import triggers as store
from revisions.store.database import Connection, Database
from revisions.store.tables import SCHEMA

MOST_BREAKS = 100
"""Broken triggers that are named; beyond it they are only counted."""


@dataclass(slots=True)
class Report:
    """What was looked at and what is wrong: the first break of each broken trigger, in the order they were found."""

    triggers: int = 0
    revisions: int = 0
    broken: int = 0
    breaks: list[ChainBreak] = field(default_factory=list)
    guards_missing: list[str] = field(default_factory=list)
    checkpoint: Checkpoint | None = None

    @property
    def is_sound(self) -> bool:
        return not self.broken and not self.guards_missing

    def add(self, found: ChainBreak | None) -> None:
        if found:
            self.broken += 1
            if len(self.breaks) < MOST_BREAKS:
                self.breaks.append(found)


Ended = Callable[[Walk, ChainBreak | None, Mapping[str, Any] | None], None]
"""Told of each trigger: its walk, what broke it, its current row."""


class Verifying:
    """Reads histories and says whether they hold; changes nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def verify(
        self,
        key: TriggerKey | None = None,
        checkpoint: Checkpoint | None = None,
        progress: Progress = lambda done, total: None,
    ) -> Report:
        """Walks all chains, or one trigger's; with a checkpoint, up to what was signed. Raises NotFound.

        One state of the database is read, a page at a time.
        """
        report = Report(checkpoint=checkpoint)
        with self._database.read() as connection:
            history_rows.snapshot(connection)
            ids = None if key is None else _named(connection, key, checkpoint)
            signed = dict(checkpoint.heads) if checkpoint else {}
            if ids is not None:
                signed = {trigger_id: head for trigger_id, head in signed.items() if trigger_id in ids}
            report.guards_missing = guards.missing(connection)

            def ended(walk: Walk, found: ChainBreak | None, _: Mapping[str, Any] | None) -> None:
                report.triggers += 1
                report.revisions += walk.revision
                report.add(found)
                signed.pop(walk.trigger_id, None)

            walk_all(connection, ended, ids=ids, signed=dict(signed), progress=progress)
            for row in history_rows.rows_without_history(connection, ids):
                ended(Walk(row["trigger_id"], signed.get(row["trigger_id"])), _bare(row), row)
            for head in sorted(signed.values()):
                report.add(
                    ChainBreak(head.trigger_id, head.key, head.revision, BreakKind.CHECKPOINT, None, head.hash, None)
                )
        return report

    def checkpoint(
        self, key: PrivateKey, *, unverified: bool = False, progress: Progress = lambda done, total: None
    ) -> dict[str, Any]:
        """The heads of all triggers as they are now, signed; what they end is verified first, in the same state (R-10).

        Raises Conflict with the first break, unless it is to be signed for `unverified`.
        """
        with self._database.read() as connection:
            history_rows.snapshot(connection)
            if not unverified:
                refuse_broken(connection, "nothing was signed", progress)
            heads = history_rows.heads(connection)
            now = self._database.clock.now(connection)
        return checkpoints.document(heads, now, SCHEMA, key)


def refuse_broken(connection: Connection, refused: str, progress: Progress = lambda done, total: None) -> None:
    """Walks all chains to their current rows. Raises Conflict at the first break; `refused` says what was not done."""

    def ended(walk: Walk, found: ChainBreak | None, _: Mapping[str, Any] | None) -> None:
        if found:
            raise untrusted(refused, found)

    walk_all(connection, ended, progress=progress)
    for row in history_rows.rows_without_history(connection, None):
        raise untrusted(refused, _bare(row))


def untrusted(refused: str, found: ChainBreak) -> Conflict:
    """What cannot be trusted is not built upon."""
    detail = f"{refused}: {found.key}, revision {found.revision}: {found.message}"
    only_current = found.what is BreakKind.CURRENT and found.field not in (None, "revision")
    mend = "`triggerctl rebuild` makes it right" if only_current else "put the history back from a backup or an export"
    return Conflict.hinted("history", detail, f"`triggerctl verify` shows what is broken; {mend}")


def walk_all(
    connection: Connection,
    ended: Ended,
    *,
    ids: Sequence[str] | None = None,
    signed: Mapping[str, ChainHead] | None = None,
    progress: Progress = lambda done, total: None,
) -> None:
    """Walks the chain of each trigger that has revisions, in the order of ids; none is held longer than a page."""
    total, done = history_rows.count(connection) if ids is None else 0, 0
    walks: list[tuple[Walk, ChainBreak | None]] = []
    for page in history_rows.pages(connection, ids):
        for part in page:
            for trigger_id, revisions in _by_trigger(part):
                if not walks or trigger_id != walks[-1][0].trigger_id:
                    walks.append((Walk(trigger_id, (signed or {}).get(trigger_id)), None))
                walk, found = walks[-1]
                walks[-1] = walk, found or walk.extend(revisions)
        _end(connection, walks[:-1], ended)
        walks = walks[-1:]
        done += page.size
        progress(done, max(total, done))
    _end(connection, walks, ended)


def _end(connection: Connection, walks: Sequence[tuple[Walk, ChainBreak | None]], ended: Ended) -> None:
    """Ends walks at the current rows of their triggers."""
    standing = history_rows.current_rows(connection, (walk.trigger_id for walk, _ in walks)) if walks else {}
    for walk, found in walks:
        row = standing.get(walk.trigger_id)
        ended(walk, found or walk.end(row), row)


def _by_trigger(part: list[Row]) -> Iterator[tuple[str, list[Row]]]:
    if part[0][0] == part[-1][0]:
        yield part[0][0], part
        return
    for trigger_id, rows in groupby(part, key=lambda row: row[0]):
        yield trigger_id, list(rows)


def _named(connection: Connection, key: TriggerKey, checkpoint: Checkpoint | None) -> list[str]:
    """The ids that a name stands for: the current row's, and the checkpoint's. Raises NotFound."""
    current: Trigger | None = store.get(connection, key)
    heads = checkpoint.heads.values() if checkpoint else ()
    ids = {head.trigger_id for head in heads if head.key == key} | ({current.trigger_id} if current else set())
    if not ids and not (ids := history_rows.ids_named(connection, key)):
        raise NotFound.trigger(key)
    return sorted(ids)


def _bare(row: Mapping[str, Any]) -> ChainBreak:
    return ChainBreak(row["trigger_id"], key_of(row), 1, BreakKind.NUMBER, None, 1, None)

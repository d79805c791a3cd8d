"""What the pages show: asked of the functions behind the API's routes, so that both say the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from fastapi import Response

from controller.api import history, preview, runs, triggers
from controller.services import Services
from controller.shapes.common import Page
from controller.shapes.occurrences import OccurrenceShape
from controller.shapes.previews import PreviewShape
from controller.shapes.revisions import RevisionShape
from controller.shapes.runs import RunShape, WaitingRunShape
from controller.shapes.triggers import TriggerShape
from controller.web import words
from controller.web.words import Standing
from reconcile.decide.authority import Reach
from revisions.ids import TriggerKey
from revisions.store import claims

TRIGGERS, REVISIONS, RUNS, SKIPS, FIRES = 50, 20, 20, 10, 5
"""How many of each stand on a page."""
LOOKED_BACK = 200
"""How many of the newest occurrences are searched for skipped ones."""
LOG_SHOWN = 64 * 1024
"""Bytes of a log's end that stand on the page; all of it is a link away."""


@dataclass(frozen=True, slots=True)
class Sought:
    """What the list was narrowed to."""

    project: str | None
    tag: str | None
    active: bool | None


@dataclass(frozen=True, slots=True)
class Listing:
    """The triggers on one page; `last` are the statuses of their last runs, by the run's id."""

    now: datetime
    triggers: Page[TriggerShape]
    last: dict[str, str]


@dataclass(frozen=True, slots=True)
class Detail:
    """One trigger; `ahead` is None where no fire is to come or its schedule cannot be read."""

    now: datetime
    trigger: TriggerShape
    standing: Standing
    last: dict[str, str]
    ahead: PreviewShape | None
    revisions: Page[RevisionShape]
    runs: Page[RunShape]
    skips: list[OccurrenceShape]


@dataclass(frozen=True, slots=True)
class RunDetail:
    """One run with the log of an attempt; `cut`: only the end of it is here."""

    now: datetime
    run: WaitingRunShape
    attempt: int
    log: str
    cut: bool


def listing(here: Services, within: Reach, sought: Sought, cursor: str | None) -> Listing:
    """The triggers that are not deleted, by name. Raises Invalid for a cursor that is none."""
    found = triggers.listing(
        here, within, project=sought.project, tag=sought.tag, active=sought.active, limit=TRIGGERS, cursor=cursor
    )
    return Listing(triggers=found, last=_last(here, found["items"]), now=_now(here))


def detail(here: Services, within: Reach, key: TriggerKey, revisions_from: str | None, runs_from: str | None) -> Detail:
    """One trigger, deleted or not; the cursors say where the parts begin. Raises NotFound and Invalid."""
    shown = triggers.show(key, here, Response())
    newest = history.revision(key, shown["revision"], here)
    ledger = history.ledger(key, here, limit=LOOKED_BACK)
    return Detail(
        trigger=shown,
        standing=words.standing(shown, newest["reason"]),
        last=_last(here, [shown]),
        ahead=_ahead(here, key, shown),
        revisions=history.revisions(key, here, limit=REVISIONS, cursor=revisions_from),
        runs=runs.listing(here, within, trigger=str(key), limit=RUNS, cursor=runs_from),
        skips=[item for item in ledger["items"] if item["run_id"] is None][:SKIPS],
        now=_now(here),
    )


def run_detail(here: Services, within: Reach, id: str, attempt: int | None) -> RunDetail:
    """One run and what the attempt printed, the newest without a number. Raises NotFound."""
    log = bytes(runs.log(id, here, within, attempt).body)
    shown = runs.show(id, here, within)
    end = log[-LOG_SHOWN:].decode(errors="replace")
    return RunDetail(run=shown, attempt=attempt or shown["attempt"], log=end, cut=len(log) > LOG_SHOWN, now=_now(here))


def _ahead(here: Services, key: TriggerKey, shown: TriggerShape) -> PreviewShape | None:
    """The next fires, from the end of a pause on where there is one."""
    if shown["deleted"]:
        return None
    try:
        return preview.of_trigger(key, here, n=FIRES, after=shown["status"]["paused_until"])
    except ValueError:  # a spec that this release cannot read (L-13): the page stands all the same
        return None


def _last(here: Services, shown: Sequence[TriggerShape]) -> dict[str, str]:
    ids = [trigger["status"]["last_run_id"] for trigger in shown]
    with here.database.read() as connection:
        return {one.run.id: one.run.status for one in claims.get(connection, [id for id in ids if id])}


def _now(here: Services) -> datetime:
    with here.database.read() as connection:
        return here.database.clock.now(connection)

"""What the pages show: asked of the functions behind the API's routes, so that both say the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from controller.api import history, preview, runs, triggers
from controller.api.answers import ListOut
from controller.api.history import OccurrenceOut, RevisionOut
from controller.api.parameters import optional_moment, projects_to_list
from controller.api.preview import PreviewOut
from controller.api.runs import RunOut, WaitingRunOut
from controller.api.triggers import TriggerFilter, TriggerOut
from controller.services import Services
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
    triggers: ListOut[TriggerOut]
    last: dict[str, str]


@dataclass(frozen=True, slots=True)
class Detail:
    """One trigger; `ahead` is None where no fire is to come or its schedule cannot be read."""

    now: datetime
    trigger: TriggerOut
    standing: Standing
    last: dict[str, str]
    ahead: PreviewOut | None
    revisions: ListOut[RevisionOut]
    runs: ListOut[RunOut]
    skips: list[OccurrenceOut]


@dataclass(frozen=True, slots=True)
class RunDetail:
    """One run with the log of an attempt; `cut`: only the end of it is here."""

    now: datetime
    run: WaitingRunOut
    attempt: int
    log: str
    cut: bool


def listing(here: Services, within: Reach, sought: Sought, cursor: str | None) -> Listing:
    """The triggers that are not deleted, by name. Raises Invalid for a cursor that is none."""
    filters = TriggerFilter(project=sought.project, tag=sought.tag, active=sought.active)
    found = triggers.list_triggers(here, filters, projects_to_list(within, sought.project), TRIGGERS, cursor)
    return Listing(triggers=found, last=_last(here, found.items), now=_now(here))


def detail(here: Services, key: TriggerKey, revisions_from: str | None, runs_from: str | None) -> Detail:
    """One trigger, deleted or not; the cursors say where the parts begin. Raises NotFound and Invalid."""
    shown = triggers.read_trigger(here, key)
    newest = history.read_revision(here, key, shown.revision)
    ledger = history.list_occurrences(here, key, LOOKED_BACK, None)
    return Detail(
        trigger=shown,
        standing=words.standing(shown, newest.reason),
        last=_last(here, [shown]),
        ahead=_ahead(here, key, shown),
        revisions=history.list_revisions(here, key, REVISIONS, revisions_from),
        runs=runs.list_runs_of(here, key, RUNS, runs_from),
        skips=[item for item in ledger.items if item.run_id is None][:SKIPS],
        now=_now(here),
    )


def run_detail(here: Services, within: Reach, id: str, attempt: int | None) -> RunDetail:
    """One run and what the attempt printed, the newest without a number. Raises NotFound."""
    log = runs.read_log(here, within, id, attempt).text
    shown = runs.read_run(here, within, id)
    end = log[-LOG_SHOWN:].decode(errors="replace")
    return RunDetail(run=shown, attempt=attempt or shown.attempt, log=end, cut=len(log) > LOG_SHOWN, now=_now(here))


def _ahead(here: Services, key: TriggerKey, shown: TriggerOut) -> PreviewOut | None:
    """The next fires, from the end of a pause on where there is one."""
    if shown.deleted:
        return None
    try:
        return preview.preview_trigger(here, key, FIRES, optional_moment(shown.status.paused_until, "paused_until"))
    except ValueError:  # a spec that this release cannot read (L-13): the page stands all the same
        return None


def _last(here: Services, shown: Sequence[TriggerOut]) -> dict[str, str]:
    ids = [trigger.status.last_run_id for trigger in shown]
    with here.database.read() as connection:
        return {one.run.id: one.run.status for one in claims.get(connection, [id for id in ids if id])}


def _now(here: Services) -> datetime:
    with here.database.read() as connection:
        return here.database.clock.now(connection)

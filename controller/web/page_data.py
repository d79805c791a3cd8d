"""Data of the pages, read with the functions behind the API's routes so that page and API agree."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from controller.api import history, preview, runs, triggers
from controller.api.answers import ListOut
from controller.api.history import OccurrenceOut, RevisionOut
from controller.api.parameters import optional_moment, projects_to_list
from controller.api.preview import PreviewOut
from controller.api.runs import RunOut, WaitingRunOut
from controller.api.triggers import TriggerFilter, TriggerOut
from controller.services import Services
from controller.web.formatting import DisplayState, display_state
from reconcile.decide.authority import Reach
from revisions.ids import TriggerKey
from revisions.store import claims

TRIGGERS, REVISIONS, RUNS, SKIPS, FIRES = 50, 20, 20, 10, 5
"""Largest number of each on a page."""
SEARCHED_OCCURRENCES: Final = 200
"""Number of the newest occurrences among which skips are looked for."""
LOG_BYTES: Final = 64 * 1024
"""Largest part of a log on a page; it is the log's end, and a link leads to the whole."""


@dataclass(frozen=True, slots=True)
class TriggersPage:
    """Part of the list of triggers; `last_runs` holds the status of each trigger's last run, by run id."""

    now: datetime
    triggers: ListOut[TriggerOut]
    last_runs: dict[str, str]


@dataclass(frozen=True, slots=True)
class TriggerPage:
    """One trigger. `ahead` is None if the trigger is deleted or this release cannot read its schedule."""

    now: datetime
    trigger: TriggerOut
    state: DisplayState
    last_runs: dict[str, str]
    ahead: PreviewOut | None
    revisions: ListOut[RevisionOut]
    runs: ListOut[RunOut]
    skips: list[OccurrenceOut]


@dataclass(frozen=True, slots=True)
class RunPage:
    """One run with the log of an attempt; `is_cut` if the log is longer."""

    now: datetime
    run: WaitingRunOut
    attempt: int
    log: str
    is_cut: bool


def read_triggers_page(services: Services, reach: Reach, filters: TriggerFilter, cursor: str | None) -> TriggersPage:
    """Return the triggers that are not deleted, by name. Raises Forbidden, and Invalid for a bad cursor."""
    projects = projects_to_list(reach, filters.project)
    listed = triggers.list_triggers(services, filters, projects, TRIGGERS, cursor)
    return TriggersPage(triggers=listed, last_runs=_last_runs(services, listed.items), now=_now(services))


def read_trigger_page(
    services: Services, key: TriggerKey, revisions_cursor: str | None, runs_cursor: str | None
) -> TriggerPage:
    """Return one trigger, also a deleted one. Raises NotFound, and Invalid for a bad cursor."""
    trigger = triggers.read_trigger(services, key)
    newest_revision = history.read_revision(services, key, trigger.revision)
    occurrences = history.list_occurrences(services, key, SEARCHED_OCCURRENCES, None)
    return TriggerPage(
        trigger=trigger,
        state=display_state(trigger, newest_revision.reason),
        last_runs=_last_runs(services, [trigger]),
        ahead=_ahead(services, key, trigger),
        revisions=history.list_revisions(services, key, REVISIONS, revisions_cursor),
        runs=runs.list_runs_of(services, key, RUNS, runs_cursor),
        skips=[occurrence for occurrence in occurrences.items if occurrence.run_id is None][:SKIPS],
        now=_now(services),
    )


def read_run_page(services: Services, reach: Reach, id: str, attempt: int | None) -> RunPage:
    """Return one run with the log of an attempt, None for the newest. Raises NotFound."""
    run = runs.read_run(services, reach, id)
    log = runs.read_log(services, reach, id, attempt)  # after the run: a finished run is shown with its whole log
    end = log.text[-LOG_BYTES:].decode(errors="replace")
    return RunPage(run=run, attempt=log.attempt, log=end, is_cut=len(log.text) > LOG_BYTES, now=_now(services))


def _ahead(services: Services, key: TriggerKey, trigger: TriggerOut) -> PreviewOut | None:
    """Return the next fires, those of a paused trigger from the end of its pause on."""
    if trigger.deleted:
        return None
    resumes_at = optional_moment(trigger.status.paused_until, "paused_until")
    try:
        return preview.preview_trigger(services, key, FIRES, resumes_at)
    except ValueError:  # a spec that this release cannot read (L-13): the rest of the page is still shown
        return None


def _last_runs(services: Services, shown: Sequence[TriggerOut]) -> dict[str, str]:
    ids = [trigger.status.last_run_id for trigger in shown]
    with services.database.read() as connection:
        return {claim.run.id: claim.run.status for claim in claims.get(connection, [id for id in ids if id])}


def _now(services: Services) -> datetime:
    with services.database.read() as connection:
        return services.database.clock.now(connection)

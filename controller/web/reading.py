"""What the pages show: asked of the functions behind the API's routes, so that both say the same."""

from dataclasses import dataclass
from datetime import datetime

from controller.api import history, preview, runs, triggers
from controller.contract import OccurrenceShape, Page, PreviewShape, RevisionShape, RunShape, TriggerShape
from controller.services import Services
from controller.web import words
from controller.web.words import Standing
from revisions.ids import TriggerKey
from revisions.store import claims

TRIGGERS, REVISIONS, RUNS, FIRES = 50, 20, 20, 5
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
    """The triggers on one page; `ended` are the statuses of their last runs by id."""

    now: datetime
    triggers: Page[TriggerShape]
    ended: dict[str, str]


@dataclass(frozen=True, slots=True)
class Detail:
    """One trigger; `ahead` is None where its schedule cannot be read or has no say any more."""

    now: datetime
    trigger: TriggerShape
    standing: Standing
    ended: dict[str, str]
    ahead: PreviewShape | None
    revisions: Page[RevisionShape]
    runs: Page[RunShape]
    skips: list[OccurrenceShape]


@dataclass(frozen=True, slots=True)
class RunDetail:
    """One run with the log of an attempt; `cut`: what stands before the shown part of it was left out."""

    now: datetime
    run: RunShape
    attempt: int
    log: str
    cut: bool


def listing(here: Services, sought: Sought, cursor: str | None) -> Listing:
    """The list, by name."""
    found = triggers.listing(
        here, project=sought.project, tag=sought.tag, active=sought.active, limit=TRIGGERS, cursor=cursor
    )
    return Listing(_now(here), found, _ended(here, found["items"]))[:0] if False else Listing(
        triggers=found, ended=_ended(here, found["items"]), now=_now(here)
    )


def _now(here: Services) -> datetime:
    with here.database.read() as connection:
        return here.database.clock.now(connection)

"""Looks for what should not be, tells it, and mends it: the net under everything else (L-16)."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from reconcile.decide.automatic_stops import Stop, worn_out
from reconcile.decide.retry import AttemptOutcome
from reconcile.loop.alarms import Alarms
from reconcile.observations.observation import Observations
from reconcile.observations.passes import FaultFound, FindingKind
from reconcile.runs.attempt import Ended
from reconcile.runs.settle import settle
from reconcile.triggers.activation import stop_trigger
from revisions.ids import utc_text
from revisions.spec.stored import readable_trigger
from revisions.store import claims, holds
from revisions.store import status as status_store
from revisions.store import tasks as task_store
from revisions.store import triggers as trigger_store
from revisions.store.database import Connection, Database
from revisions.store.pipeline import write

REAPED_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that should not be; `subject` is a trigger's or a run's id, or a task."""

    kind: FindingKind
    subject: str
    detail: str


class Scanner:
    """One look at everything; all but a watermark that is ahead is mended, which only a person may set back (L-12).

    `patience` is how long the loops and the runners have for what is theirs.
    """

    def __init__(self, database: Database, alarms: Alarms, observations: Observations, patience: timedelta) -> None:
        self._database = database
        self._alarms = alarms
        self._observations = observations
        self._patience = patience

    def scan(self) -> list[Finding]:
        """What was found; overdue triggers are for the caller to decide. Raises Unavailable."""
        found = [*self._jobs()]
        with self._database.read() as connection:
            now = self._database.clock.now(connection)
            found += self._overdue(connection, now)
            found += self._ahead(connection, now)
            stopping = list(worn_triggers(connection))
            wrong = task_store.wrong_summaries(connection)
            lapsed = claims.lapsed(connection, now - self._patience, REAPED_AT_ONCE)
        for trigger_id, stop in stopping:
            stop_trigger(self._database, self._observations, trigger_id, stop)
            found.append(Finding(FindingKind.LIMIT, trigger_id, f"was active at its limit ({stop.reason})"))
        if wrong:
            with self._database.write() as connection:
                task_store.lock(connection, wrong)
                write(connection, *task_store.summary_writes(wrong))
            found += [Finding(FindingKind.SUMMARY, str(key), "counted other triggers than there are") for key in wrong]
        for run in lapsed:
            lost = Ended(AttemptOutcome.LOST, "its worker stopped renewing the lease, and no runner took the run over")
            settled = settle(self._database, self._observations, run, lost)
            if settled.stop:
                stop_trigger(self._database, self._observations, run.trigger_id, settled.stop)
            found.append(Finding(FindingKind.CLAIM, run.id, "was claimed by a worker that is no more"))
        for finding in found:
            self._observations.emit(FaultFound(finding.kind, finding.subject, finding.detail))
        return found

    def _jobs(self) -> Iterator[Finding]:
        self._alarms.follow()  # what is merely new is no fault
        changes = self._alarms.follow(full=True)
        for told, ids in (
            ("had no job", changes.added),
            ("had a job of another revision", changes.replaced),
            ("had a job and is not active", changes.removed),
        ):
            for trigger_id in ids:
                yield Finding(FindingKind.JOB, trigger_id, told)

    def _overdue(self, connection: Connection, now: datetime) -> Iterator[Finding]:
        frozen = holds.frozen_projects(connection, now)
        if frozen is None:
            return
        for trigger_id in status_store.due(connection, now - self._patience, frozen):
            yield Finding(FindingKind.OVERDUE, trigger_id, "was due and nobody decided")

    def _ahead(self, connection: Connection, now: datetime) -> Iterator[Finding]:
        for trigger_id, watermark in status_store.watermarks_after(connection, now + self._patience):
            told = f"its watermark {utc_text(watermark)} is ahead of now: `triggerctl catchup T --rebase` sets it back"
            yield Finding(FindingKind.WATERMARK, trigger_id, told)


def worn_triggers(connection: Connection) -> Iterator[tuple[str, Stop]]:
    """Active triggers that are to stop for what their runs came to."""
    for trigger_id, failures, successes in status_store.stop_candidates(connection):
        trigger = trigger_store.by_id(connection, trigger_id)
        if trigger and (stop := worn_out(readable_trigger(trigger.spec), failures, successes)):
            yield trigger_id, stop

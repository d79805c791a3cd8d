"""Scan of the whole database for faults that no pass would notice, and their repair (L-16)."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from reconcile.decide.attempt_ends import AttemptOutcome
from reconcile.decide.automatic_stops import Stop, worn_out
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
from revisions.store.sessions import write

CLAIMS_PER_SCAN = 100
"""Lapsed claims that one scan settles; the next scan goes on."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault; `subject` is the id of a trigger or a run, or the name of a task version."""

    kind: FindingKind
    subject: str
    detail: str


def scan(database: Database, observations: Observations, alarms: Alarms, patience: timedelta) -> list[Finding]:
    """Find faults, repair them, and return them.

    Two kinds are not repaired here: overdue triggers, which the caller decides, and a watermark ahead of now, which
    only a person may set back (L-12). `patience` is the time that loops and runners have before something counts as
    left undone. Raises Unavailable.
    """
    findings = _jobs(alarms)
    with database.read() as connection:
        now = database.clock.now(connection)
        findings += [
            Finding(FindingKind.OVERDUE, trigger_id, "was due and nobody decided")
            for trigger_id in overdue_triggers(connection, now - patience, now)
        ]
        findings += _watermarks_ahead(connection, now + patience)
        worn = list(worn_triggers(connection))
        miscounted = task_store.wrong_summaries(connection)
        lapsed = claims.lapsed(connection, now - patience, CLAIMS_PER_SCAN)
    # Each repair is a transaction of its own, which looks again under its locks: what was read above may have changed.
    for trigger_id, stop in worn:
        stop_trigger(database, observations, trigger_id, stop)
        findings.append(Finding(FindingKind.LIMIT, trigger_id, f"was active at its limit ({stop.reason})"))
    if miscounted:
        with database.write() as connection:
            # Under the tasks' locks, and counted in a later statement, so that no change of a trigger slips between.
            task_store.lock(connection, miscounted)
            write(connection, *task_store.summary_writes(miscounted))
        findings += [
            Finding(FindingKind.SUMMARY, str(key), "counted other triggers than there are") for key in miscounted
        ]
    for run in lapsed:
        lost = Ended(AttemptOutcome.LOST, "its worker stopped renewing the lease, and no runner took the run over")
        settled = settle(database, observations, run, lost)
        if settled.stop:
            stop_trigger(database, observations, run.trigger_id, settled.stop)
        findings.append(Finding(FindingKind.CLAIM, run.id, "was claimed by a worker that is no more"))
    for finding in findings:
        observations.emit(FaultFound(finding.kind, finding.subject, finding.detail))
    return findings


def overdue_triggers(connection: Connection, due_until: datetime, now: datetime) -> list[str]:
    """Return triggers whose next fire was due by an instant, oldest first, without those that a freeze holds now."""
    frozen = holds.frozen_projects(connection, now)
    return [] if frozen is None else status_store.due(connection, due_until, frozen)  # None: everything is frozen


def worn_triggers(connection: Connection) -> Iterator[tuple[str, Stop]]:
    """Yield active triggers that are at their limit of failures or of successes, with the stop that this calls for.

    A process that was killed between the end of a run and the deactivation leaves such triggers.
    """
    for trigger_id, failures, successes in status_store.stop_candidates(connection):
        trigger = trigger_store.by_id(connection, trigger_id)
        if trigger and (stop := worn_out(readable_trigger(trigger.spec), failures, successes)):
            yield trigger_id, stop


def _jobs(alarms: Alarms) -> list[Finding]:
    alarms.update()  # first the changes of the feed: a trigger that is merely new or changed is no fault
    changes = alarms.update(full=True)
    return [
        Finding(FindingKind.JOB, trigger_id, detail)
        for detail, ids in (
            ("had no job", changes.added),
            ("had a job of another revision", changes.replaced),
            ("had a job and is not active", changes.removed),
        )
        for trigger_id in ids
    ]


def _watermarks_ahead(connection: Connection, limit: datetime) -> list[Finding]:
    return [
        Finding(
            FindingKind.WATERMARK,
            trigger_id,
            f"its watermark {utc_text(watermark)} is ahead of now: `triggerctl catchup T --rebase` sets it back",
        )
        for trigger_id, watermark in status_store.watermarks_after(connection, limit)
    ]

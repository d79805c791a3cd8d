"""What a pass writes, gathered so that each table gets one statement."""

from collections import Counter
from datetime import datetime
from typing import Any

from reconcile.decide.catchup import CatchupPlan
from reconcile.decide.concurrency import DISPLACING
from reconcile.loop.facts import TriggerCase
from reconcile.runs.creation import new_run, outcome_of
from reconcile.schedule.fires import Fire
from reconcile.triggers.append import skip_of
from revisions.history.triggers import SYSTEM
from revisions.ids import TriggerKey
from revisions.outcomes import RunSource
from revisions.store import backlogs as backlog_store
from revisions.store import notices, occurrences, run_orders
from revisions.store import runs as run_store
from revisions.store import status as status_store
from revisions.store import triggers as trigger_store
from revisions.store.backlogs import Backlog
from revisions.store.database import Connection
from revisions.store.occurrences import Skip
from revisions.store.run_orders import Displacement
from revisions.store.runs import NewRun, Run


class Records:
    """Runs, skips, backlogs and status rows of one pass, decided at one instant; `waited` are seconds for a token.

    `made`: the runs whose occurrence had none yet, once they are stored; `changes`: what the change that made a
    trigger's revision was part of, where that was something. `cancelled`: waiting runs that gave way to new ones, each
    by its trigger's name.
    """

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.runs: list[NewRun] = []
        self.made: list[NewRun] = []
        self.skips: list[Skip] = []
        self.backlogs: list[Backlog] = []
        self.waited: list[float] = []
        self.changes: dict[str, str] = {}
        self.cancelled: list[tuple[Run, TriggerKey | None]] = []
        self._displaced: list[Displacement] = []
        self._statuses: list[dict[str, Any]] = []

    def add(self, case: TriggerCase, plan: CatchupPlan, **moved: datetime | None) -> None:
        """A trigger's decision; `moved` are the status columns that go with it."""
        row, left = case.status, (*plan.skips, *plan.then)
        runs = [self._run(case, fire) for fire in plan.starts]
        if runs and case.facts.live_runs and case.terms.overlap in DISPLACING:
            self._displaced.append(Displacement(row.trigger_id, runs[-1].id, case.terms.overlap == "terminate"))
        told = (row.last_outcome, row.last_outcome_at)
        if runs:
            told = (outcome_of(runs[-1]), self.now)
        elif left:
            told = (left[-1].outcome, self.now)
        self.runs += runs
        if runs and row.traceparent:
            self.changes[row.trigger_id] = row.traceparent
        if runs and row.rate_waiting_since:
            self.waited.append((self.now - row.rate_waiting_since).total_seconds())
        self.skips += [skip_of(row.trigger_id, row.revision, self.now, part) for part in left]
        self._statuses.append(
            {
                "trigger_id": row.trigger_id,
                "last_fired_at": self.now if runs else row.last_fired_at,
                "last_outcome": told[0],
                "last_outcome_at": told[1],
                "last_run_id": runs[-1].id if runs else row.last_run_id,
                "run_count": row.run_count + len(runs),
                "started_count": row.started_count + len(runs),
                "asked_fire_at": None if plan.is_asked else row.asked_fire_at,
                "asked_by_run_id": None if plan.is_asked else row.asked_by_run_id,
                **moved,
            }
        )
        if plan.backlog:
            after, until = plan.backlog
            # served_at: never yet, so before any backlog that was; among those, the oldest first
            self.backlogs.append(Backlog(row.trigger_id, after, until, self.now, served_at=after))

    def store(self, connection: Connection) -> None:
        if over := run_orders.displace(connection, self._displaced, self.now):
            names = trigger_store.keys(connection, {run.trigger_id for run in over})
            self.cancelled = [(run, names.get(run.trigger_id)) for run in over]
        self.made = self.runs
        if run_store.create(connection, self.runs) < len(self.runs):
            firsts = run_store.stored_ids(connection, self.runs)
            self.made = [run for run in self.runs if firsts[run.id] == run.id]
            kept = Counter(run.trigger_id for run in self.runs if firsts[run.id] != run.id)  # counted when it was made
            for status in self._statuses:
                status["last_run_id"] = firsts.get(status["last_run_id"], status["last_run_id"])
                status["run_count"] -= kept[status["trigger_id"]]
        occurrences.record(connection, self.skips)
        backlog_store.add(connection, self.backlogs)
        status_store.save(connection, self._statuses)
        if self.runs:
            notices.runs_pending(connection)

    def _run(self, case: TriggerCase, fire: Fire) -> NewRun:
        return new_run(
            case.facts,
            case.terms,
            self.now,
            occurrence_id=fire.id,
            scheduled_at=fire.at,
            source=RunSource.SCHEDULE,
            overlap=case.terms.overlap.value,
            actor=SYSTEM,
            input=case.terms.input,
            start_by=case.terms.start_by(self.now),
            reserved=case.reserve,
        )

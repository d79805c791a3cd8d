"""Rows that a pass writes, gathered so that each table gets one statement."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from reconcile.decide.admission import DISPLACING
from reconcile.decide.catchup import CatchupPlan
from reconcile.loop.facts import TriggerCase
from reconcile.runs.claim import new_run, outcome_of
from reconcile.schedule.fires import Fire
from reconcile.triggers.append import skip_of
from revisions.history.triggers import SYSTEM
from revisions.ids import TriggerKey
from revisions.outcomes import RunSource
from revisions.spec.trigger import OverlapPolicy
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


class DecisionRows:
    """Runs, skips, backlogs and status rows of one pass, all decided at `now`.

    `runs` are the starts decided; `made`, set by `store`, are those of them whose occurrence had no run yet. `waited`
    has the seconds that starts had waited for a rate token. `changes` has the traceparent of the change that made a
    trigger's revision, by trigger id. `cancelled`, set by `store`, are waiting runs that gave way to new ones.
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

    def add_due(
        self,
        case: TriggerCase,
        granted: CatchupPlan,
        next_fire_at: datetime | None,
        rate_waiting_since: datetime | None,
    ) -> None:
        """Add the decision of a due pass, which moves the watermark."""
        moved = {
            "watermark": granted.watermark,
            "next_fire_at": next_fire_at,
            "rate_waiting_since": rate_waiting_since,
        }
        self._add(case, granted, moved)

    def add_backlog_part(self, case: TriggerCase, granted: CatchupPlan) -> None:
        """Add a decided part of a backlog, which lies before the watermark and leaves it where it is."""
        self._add(case, granted, {})

    def store(self, connection: Connection) -> None:
        """Write all rows; the caller holds the locks of the status rows."""
        if cancelled := run_orders.displace(connection, self._displaced, self.now):
            names = trigger_store.keys(connection, {run.trigger_id for run in cancelled})
            self.cancelled = [(run, names.get(run.trigger_id)) for run in cancelled]
        self.made = self.runs
        if run_store.create(connection, self.runs) < len(self.runs):
            self._keep_earlier_runs(connection)
        occurrences.record(connection, self.skips)
        backlog_store.add(connection, self.backlogs)
        status_store.save(connection, self._statuses)
        if self.runs:
            notices.runs_pending(connection)

    def _add(self, case: TriggerCase, granted: CatchupPlan, moved: Mapping[str, datetime | None]) -> None:
        row, skipped = case.status, (*granted.skips, *granted.then)
        runs = [self._run(case, fire) for fire in granted.starts]
        if runs and case.facts.live_runs and case.terms.overlap in DISPLACING:
            is_forced = case.terms.overlap is OverlapPolicy.TERMINATE
            self._displaced.append(Displacement(row.trigger_id, runs[-1].id, is_forced))
        last_outcome, last_outcome_at = row.last_outcome, row.last_outcome_at
        if runs:
            last_outcome, last_outcome_at = outcome_of(runs[-1]), self.now
        elif skipped:
            last_outcome, last_outcome_at = skipped[-1].outcome, self.now
        self.runs += runs
        if runs and row.traceparent:
            self.changes[row.trigger_id] = row.traceparent
        if runs and row.rate_waiting_since:
            self.waited.append((self.now - row.rate_waiting_since).total_seconds())
        self.skips += [skip_of(row.trigger_id, row.revision, self.now, part) for part in skipped]
        self._statuses.append(
            {
                "trigger_id": row.trigger_id,
                "last_fired_at": self.now if runs else row.last_fired_at,
                "last_outcome": last_outcome,
                "last_outcome_at": last_outcome_at,
                "last_run_id": runs[-1].id if runs else row.last_run_id,
                "run_count": row.run_count + len(runs),
                "started_count": row.started_count + len(runs),
                "asked_fire_at": None if granted.is_asked else row.asked_fire_at,
                "asked_by_run_id": None if granted.is_asked else row.asked_by_run_id,
                **moved,
            }
        )
        if granted.backlog:
            after, until = granted.backlog
            # Not served yet, so its turn comes before every backlog that was; among new ones the oldest goes first.
            self.backlogs.append(Backlog(row.trigger_id, after, until, self.now, served_at=after))

    def _keep_earlier_runs(self, connection: Connection) -> None:
        """Correct the rows of occurrences that had a run already: the unique key kept it, counted already (X-01).

        A backfill that ran ahead of a backlog makes such runs.
        """
        first_ids = run_store.stored_ids(connection, self.runs)
        self.made = [run for run in self.runs if first_ids[run.id] == run.id]
        kept = Counter(run.trigger_id for run in self.runs if first_ids[run.id] != run.id)
        for status in self._statuses:
            status["last_run_id"] = first_ids.get(status["last_run_id"], status["last_run_id"])
            status["run_count"] -= kept[status["trigger_id"]]

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

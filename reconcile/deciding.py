"""The due pass and the catch-up pass: lock status rows, read facts, let the rules decide, commit in one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from reconcile.observe import Observations
from reconcile.revising import skip_of
from reconcile.rules import admission, catchup
from reconcile.rules.block import EPOCH
from reconcile.rules.catchup import Plan
from reconcile.rules.schedule import Fire, fires
from reconcile.rules.terms import Terms, terms
from revisions import ids
from revisions.store import limits as limit_store
from revisions.store import notices, occurrences
from revisions.store import runs as run_store
from revisions.store import status as status_store
from revisions.store.database import Connection, Database
from revisions.store.occurrences import Skip
from revisions.store.runs import NewRun
from revisions.store.status import Backlog, Facts, StatusRow
from revisions.triggers import SYSTEM

STARTS = "starts"
"""The bucket that scheduled and caught-up starts of all replicas share (L-10)."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How much may start: L-02's settings. `execution_qps` 0 switches the rate limit off."""

    resync_interval: timedelta = timedelta(seconds=30)
    live_grace: timedelta = timedelta(seconds=60)
    max_catchup_runs_per_loop: int = 100
    execution_qps: float = 10.0
    execution_burst: int = 20

    @property
    def grace(self) -> timedelta:
        """Up to this age an occurrence is live: never less than two resync intervals (L-06)."""
        return max(self.live_grace, 2 * self.resync_interval)


@dataclass(slots=True)
class Decided:
    """What a pass did, for the loop to follow up; nothing of it is needed for the truth.

    `alarms` are (trigger, revision, span until it is due again, None when no fire is left); `busy` are triggers whose
    row somebody else held; `failing` have reached their failure limit; `unreadable` could not be decided.
    """

    alarms: list[tuple[str, int, timedelta | None]] = field(default_factory=list)
    busy: list[str] = field(default_factory=list)
    failing: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    started: int = 0
    waiting: bool = False

    def joined(self, other: "Decided") -> "Decided":
        """What two passes did together."""
        return Decided(
            alarms=self.alarms + other.alarms,
            busy=self.busy + other.busy,
            failing=self.failing + other.failing,
            unreadable=self.unreadable + other.unreadable,
            started=self.started + other.started,
            waiting=self.waiting or other.waiting,
        )


@dataclass(frozen=True, slots=True)
class _Case:
    """One trigger under decision."""

    status: StatusRow
    facts: Facts
    terms: Terms
    plan: Plan
    backlog: Backlog | None = None


class Deciding:
    """Turns what is due into runs and recorded skips."""

    def __init__(self, database: Database, observations: Observations, pace: Pace) -> None:
        self._database = database
        self._observations = observations
        self.pace = pace

    def due(self, ids: Sequence[str]) -> Decided:
        """Decides everything undecided of these triggers up to now.

        The status row carries the revision, so its lock is the fence: a deploy takes it too, and what is decided here
        is decided from the revision in force (L-15). A row that somebody holds is left to a later pass.
        """
        decided = Decided()
        with self._database.write() as connection:
            rows = status_store.lock(connection, ids, skip_locked=True)
            facts = status_store.facts(connection, [row.trigger_id for row in rows])
            now = self._database.clock.now(connection)
            decided.busy = sorted(set(ids) - {row.trigger_id for row in rows})
            cases = []
            for row in rows:
                if (case := self._case(row, facts.get(row.trigger_id), now, decided)) is not None:
                    cases.append(case)
            granted = self._granted(connection, [case.plan for case in cases], now)
            records = _Records(now)
            for case, plan in zip(cases, granted, strict=True):
                self._move(case, plan, records, decided)
            records.store(connection)
        self._report(records, decided)
        return decided

    def catch_up(self) -> Decided:
        """Starts the next part of the stored backlogs, within this loop's cap and the rate (L-06, L-07).

        Asks for no more than the cap leaves; `waiting` says that more could start in this loop once there are tokens.
        """
        decided = Decided()
        with self._database.read() as connection:
            waiting = status_store.least_recently_served(connection, self.pace.max_catchup_runs_per_loop)
        if not waiting:
            return decided
        with self._database.write() as connection:
            rows = {row.trigger_id: row for row in status_store.lock(connection, sorted(waiting), skip_locked=True)}
            facts = status_store.facts(connection, list(rows))
            backlogs: dict[str, Backlog] = {}
            for backlog in status_store.backlogs(connection, list(rows)):
                backlogs.setdefault(backlog.trigger_id, backlog)
            now = self._database.clock.now(connection)
            slot = (now - EPOCH) // self.pace.resync_interval
            used = limit_store.catchup_used(connection, slot)
            cap = max(0, self.pace.max_catchup_runs_per_loop - used)
            served = [id for id in waiting if id in backlogs and facts[id].active][:cap]
            cases = []
            for id, share in zip(served, admission.share_cap(len(served), cap), strict=True):
                if (case := self._drain(rows[id], facts[id], backlogs[id], now, share, decided)) is not None:
                    cases.append(case)
            granted = self._granted(connection, [case.plan for case in cases], now)
            records = _Records(now)
            for case, plan in zip(cases, granted, strict=True):
                records.add(case, plan)
                assert case.backlog is not None
                status_store.serve_backlog(connection, case.backlog, plan.watermark, now)
            decided.waiting = sum(len(c.plan.starts) for c in cases) > len(records.runs)
            limit_store.use_catchup(connection, slot, used + len(records.runs))
            records.store(connection)
        self._report(records, decided)
        return decided

    def _case(self, row: StatusRow, facts: Facts | None, now: datetime, decided: Decided) -> _Case | None:
        if facts is None or not facts.active:
            return None
        read = self._terms(facts, decided)
        if read is None:
            return None
        if row.consecutive_failures >= read.deactivate_after:
            decided.failing.append(row.trigger_id)
            return None
        plan = catchup.plan(
            read,
            row.watermark,
            now,
            self.pace.grace,
            busy=facts.has_live_run,
            rate_waiting_since=row.rate_waiting_since,
        )
        return _Case(row, facts, read, plan)

    def _drain(
        self, row: StatusRow, facts: Facts, backlog: Backlog, now: datetime, share: int, decided: Decided
    ) -> _Case | None:
        read = self._terms(facts, decided)
        if read is None or row.consecutive_failures >= read.deactivate_after:
            return None
        plan = catchup.drain(read, backlog.cursor_at, backlog.until_at, now, share, busy=facts.has_live_run)
        return _Case(row, facts, read, plan, backlog)

    def _terms(self, facts: Facts, decided: Decided) -> Terms | None:
        try:
            return terms(facts.spec, facts.resolved)
        except ValueError as error:
            decided.unreadable.append(facts.trigger_id)
            self._observations.emit("trigger.unreadable", trigger_id=facts.trigger_id, error=str(error))
            return None

    def _granted(self, connection: Connection, plans: Sequence[Plan], now: datetime) -> list[Plan]:
        """The plans as far as there are tokens for them; a batch asks once."""
        wanted = sum(len(plan.starts) for plan in plans)
        if wanted == 0 or self.pace.execution_qps == 0:
            return list(plans)
        qps, burst = self.pace.execution_qps, self.pace.execution_burst
        tokens = limit_store.take_tokens(
            connection,
            STARTS,
            now,
            lambda empty_until: admission.bucket(empty_until, now, wanted, per_second=qps, burst=burst),
        )
        self._observations.emit("tokens.asked", wanted=wanted, granted=tokens)
        shares = admission.share_tokens([plan.starts for plan in plans], tokens)
        return [plan.granted(share) for plan, share in zip(plans, shares, strict=True)]

    def _move(self, case: _Case, plan: Plan, records: "_Records", decided: Decided) -> None:
        """The status after a decision: watermark, next fire and last outcome; and the alarm that follows from it."""
        now, refused = records.now, case.plan.starts[len(plan.starts) :]
        ahead = refused[0] if refused else plan.ahead
        if ahead is None:
            ahead = next(iter(fires(case.terms.schedule, plan.watermark, None, 1)), None)
        next_fire_at = ahead.at if ahead else None
        waiting_since = (case.status.rate_waiting_since or now) if refused else None
        moved = {"watermark": plan.watermark, "next_fire_at": next_fire_at, "rate_waiting_since": waiting_since}
        records.add(case, plan, **moved)
        if plan.backlog:
            after, until = plan.backlog
            # served_at: never yet, so before any backlog that was; among those, the oldest first
            records.backlogs.append(Backlog(case.status.trigger_id, after, until, now, served_at=after))
        span = timedelta(seconds=1 / self.pace.execution_qps) if refused else None
        if next_fire_at and span is None:
            span = next_fire_at - now
        decided.alarms.append((case.status.trigger_id, case.status.revision, span))

    def _report(self, records: "_Records", decided: Decided) -> None:
        decided.started = len(records.runs)
        lateness = [(records.now - run.scheduled_at).total_seconds() for run in records.runs]
        self._observations.emit(
            "pass.decided", started=decided.started, lateness=lateness, skips=records.skips, backlogs=records.backlogs
        )


class _Records:
    """What a pass writes, gathered so that each table gets one statement."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.runs: list[NewRun] = []
        self.skips: list[Skip] = []
        self.backlogs: list[Backlog] = []
        self.statuses: list[dict[str, Any]] = []

    def add(self, case: _Case, plan: Plan, **moved: datetime | None) -> None:
        """A trigger's decision; `moved` are the status columns that go with it."""
        row, left = case.status, (*plan.skips, *plan.then)
        runs = [self._run(case, fire) for fire in plan.starts]
        told = (row.last_outcome, row.last_outcome_at)
        if runs:
            told = ("started", self.now)
        elif left:
            told = (left[-1].outcome, self.now)
        self.runs += runs
        self.skips += [skip_of(row.trigger_id, row.revision, self.now, part) for part in left]
        self.statuses.append(
            {
                "trigger_id": row.trigger_id,
                "last_fired_at": self.now if runs else row.last_fired_at,
                "last_outcome": told[0],
                "last_outcome_at": told[1],
                "last_run_id": runs[-1].id if runs else row.last_run_id,
                "run_count": row.run_count + len(runs),
                **moved,
            }
        )

    def store(self, connection: Connection) -> None:
        if run_store.create(connection, self.runs) < len(self.runs):
            firsts = run_store.firsts(connection, self.runs)
            for status in self.statuses:
                status["last_run_id"] = firsts.get(status["last_run_id"], status["last_run_id"])
        occurrences.record(connection, self.skips)
        status_store.open_backlogs(connection, self.backlogs)
        status_store.save(connection, self.statuses)
        if self.runs:
            notices.runs_pending(connection)

    def _run(self, case: _Case, fire: Fire) -> NewRun:
        facts = case.facts
        return NewRun(
            id=ids.fresh(self.now),
            trigger_id=facts.trigger_id,
            occurrence_id=fire.id,
            revision=facts.revision,
            project=facts.project,
            domain=facts.domain,
            task=facts.task,
            task_version=facts.task_version,
            source="schedule",
            overlap=case.terms.overlap,
            max_attempts=case.terms.max_attempts,
            actor=SYSTEM,
            scheduled_at=fire.at,
            created_at=self.now,
            input=case.terms.input,
        )

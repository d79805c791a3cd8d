"""The reconcile loop: one thread that keeps alarms in step with the database and decides what is due."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from reconcile.decide.admission import Pace
from reconcile.decide.automatic_stops import over
from reconcile.decide.job_changes import JobChanges
from reconcile.decide.retention import Retention
from reconcile.loop import due_pass
from reconcile.loop.alarms import Alarms, DueQueue, Timers
from reconcile.loop.deadlines import judge_deadlines
from reconcile.loop.due_pass import PassResult, run_catchup_pass, run_due_pass
from reconcile.loop.pruning import prune_page
from reconcile.loop.replica import ClockGuard, Replica
from reconcile.loop.scanner import Finding, overdue_triggers, scan
from reconcile.loop.surveys import BudgetSurvey, DemandSurvey
from reconcile.observations.observation import Observations
from reconcile.observations.passes import (
    ClockJumped,
    FindingKind,
    LoopFailed,
    LoopResynced,
    PassKind,
    TriggerQuarantined,
)
from reconcile.triggers.activation import resume_paused, stop_trigger
from revisions.errors import Unavailable
from revisions.spec.stored import readable_trigger
from revisions.store import backlogs as backlog_store
from revisions.store import holds, quarantines, rates, revisions
from revisions.store import status as status_store
from revisions.store import triggers as trigger_store
from revisions.store.database import Database

BATCH = 500
"""Triggers decided in one transaction, at most."""
CONCURRENT_BATCHES = 2
"""Batches under way at once: one is decided while the database is busy with the other."""
BUSY_DELAY = timedelta(milliseconds=500)
"""Time until a trigger is due again whose status row was locked."""
POLL_SECONDS = 1.0
"""Interval of polling for changes, for databases without NOTIFY and for notifications that were lost."""
TURN_SECONDS = 0.2
"""Interval of passes while triggers wait for rate tokens, or other work is left."""
LONGEST_BACKOFF_SECONDS = 30.0
PRUNE_SECONDS = 60.0
"""Interval of asking for records to prune, where the last page left none."""
SCAN_INTERVALS = 10
"""Resync intervals from one scan to the next."""


@dataclass(slots=True)
class Timetable:
    """Monotonic times at which the loop's thread does its periodic steps next."""

    poll: float
    resync: float
    prune: float
    scan: float


class Loop:
    """Reconcile loop of one process. Its passes can be called directly; `start` has a thread call them.

    State: the jobs and alarms, the due queue, the clock guard, the surveys, and what is left to do at once: triggers
    that wait for a rate token, and backlogs. All of it is rebuilt from the database after a restart.
    """

    def __init__(
        self, database: Database, observations: Observations, pace: Pace, retention: Retention, version: str
    ) -> None:
        self._database = database
        self._observations = observations
        self._pace = pace
        self._retention = retention
        self._interval = pace.resync_interval
        self.due_queue = DueQueue()
        self.timers = Timers(self.due_queue, self._interval)
        self._alarms = Alarms(database, self.timers, observations, self._interval)
        self._clock_guard = ClockGuard()
        self._demand = DemandSurvey(database, observations, pace.execution_qps)
        self._budgets = BudgetSurvey(database, observations)
        self._replica = Replica(database, observations, version)
        self._batches = ThreadPoolExecutor(CONCURRENT_BATCHES, "due-pass")
        self._thread: threading.Thread | None = None
        self._rate_limited = False
        self._has_backlogs = False
        self._newest_changes: tuple[int, int] | None = None

    def resync(self, *, full: bool = False) -> JobChanges:
        """Set the alarms as the database says, and decide what is overdue, whatever became of its alarm (L-03).

        With `full` all jobs are compared, and not only those of triggers that changed. Nothing is decided while the
        clock seems to have jumped (L-12). Raises Unavailable.
        """
        began = self._database.clock.monotonic()
        with self._database.read() as connection:
            now = self._database.clock.now(connection)
        is_clock_accepted = self._clock_guard.accepts_at_resync(now, self._database.clock.monotonic())
        if is_clock_accepted:
            resume_paused(self._database, self._observations)
        else:
            self._observations.emit(ClockJumped(now))
        changes = self._alarms.update(full=full)
        if is_clock_accepted:
            with self._database.read() as connection:
                now = self._database.clock.now(connection)
                overdue = overdue_triggers(connection, now, now)
            self.due(overdue)
            self.take_turns()
            self.catch_up()
            self._stop_finished()
            judge_deadlines(self._database, self._observations)
        self._replica.beat(self._interval)
        self._demand.note(changes)
        self._demand.advance()
        self._budgets.advance()
        seconds = self._database.clock.monotonic() - began
        self._observations.emit(LoopResynced(changes, len(self.timers.jobs()), seconds))
        return changes

    def scan(self) -> list[Finding]:
        """Find and repair faults (L-16). Compares everything, so its cost follows the number of triggers."""
        findings = scan(self._database, self._observations, self._alarms, 2 * self._interval)
        self._budgets.begin()
        self._budgets.advance()
        self.due([finding.subject for finding in findings if finding.kind is FindingKind.OVERDUE])
        return findings

    def due(self, ids: Sequence[str], *, in_turn: bool = False) -> int:
        """Decide these triggers in batches, set their alarms, and return the number of starts.

        `in_turn` says that they are the head of the queue for rate tokens.
        """
        batches = [sorted(ids[start : start + BATCH]) for start in range(0, len(ids), BATCH)]
        decide = self._batches.map if len(batches) > 1 else map
        started = 0
        for result in decide(lambda batch: self._run_pass(PassKind.DUE, batch, in_turn=in_turn), batches):
            started += result.started
            self._rate_limited |= result.rate_limited
            self._follow_up(result)
        return started

    def take_turns(self) -> None:
        """Decide as many triggers that wait for a rate token as there are tokens, fairly by project (L-09)."""
        with self._database.read() as connection:
            now = self._database.clock.now(connection)
            tokens = due_pass.available(connection, self._pace, now)
            ids = rates.next_in_turn(connection, min(max(tokens, 1), BATCH))
        self._rate_limited = bool(ids)
        if ids and tokens:
            self.due(ids, in_turn=True)

    def catch_up(self) -> bool:
        """Start runs from backlogs within the cap; return True if more of them wait for nothing but rate tokens."""
        while True:
            with self._database.read() as connection:
                now = self._database.clock.now(connection)
                limit = self._pace.max_catchup_runs_per_loop
                frozen = holds.frozen_projects(connection, now)
                ids = [] if frozen is None else backlog_store.least_recently_served(connection, now, limit, frozen)
            if not ids:
                return False
            result = self._run_pass(PassKind.CATCH_UP, ids)
            self._follow_up(result)
            if result.started == 0 or result.rate_limited:
                return result.rate_limited

    def wake(self) -> None:
        """Have the thread resync soon, because something changed. Any thread may call this, also needlessly."""
        self.due_queue.request_resync()

    def start(self) -> None:
        """Start the thread that calls the passes."""
        self.timers.start()
        self._thread = threading.Thread(target=self._run, name="loop", daemon=True)
        self._thread.start()

    def lives(self) -> bool:
        """Return True while the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> None:
        """Stop the thread at the end of its pass, and take this process off the list of replicas."""
        self.due_queue.close()
        if self._thread:
            self._thread.join()
        self._batches.shutdown()
        self.timers.stop()  # only now, because the pass that was under way still set alarms
        with suppress(Unavailable):
            self._replica.leave()

    def _run_pass(self, kind: PassKind, ids: Sequence[str], *, in_turn: bool = False) -> PassResult:
        """Run a pass over one batch. If data makes it fail, run its halves, down to a single trigger (L-13)."""
        database, observations, pace, guard = self._database, self._observations, self._pace, self._clock_guard
        try:
            if kind is PassKind.CATCH_UP:
                return run_catchup_pass(database, observations, pace, guard, ids)
            return run_due_pass(database, observations, pace, guard, ids, in_turn=in_turn)
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001  # any error of one trigger's data; the other triggers go on
            if len(ids) == 1:
                return PassResult(unreadable={ids[0]: repr(error)})
        middle = len(ids) // 2
        first = self._run_pass(kind, ids[:middle], in_turn=in_turn)
        return first.joined(self._run_pass(kind, ids[middle:], in_turn=in_turn))

    def _follow_up(self, result: PassResult) -> None:
        """Act on the result of a pass after its commit. If the process is killed first, resync or scan does it."""
        jobs = self.timers.jobs()
        for trigger_id, revision, delay in result.alarms:
            if jobs.get(trigger_id) == revision:  # else a change came between, and its own alarm is set or will be
                self.timers.set(trigger_id, revision, delay if delay is not None else self._interval)
        for trigger_id in result.busy:
            if trigger_id in jobs:
                self.timers.set(trigger_id, jobs[trigger_id], BUSY_DELAY)
        # A stop changes the trigger, and a change locks its task before the status row: not possible within the pass.
        for trigger_id, stop in result.stops.items():
            stop_trigger(self._database, self._observations, trigger_id, stop)
        for trigger_id, error in result.unreadable.items():
            self._quarantine(trigger_id, error)
        if any(alarm.delay is None for alarm in result.alarms):
            self._stop_finished()

    def _quarantine(self, trigger_id: str, error: str) -> None:
        """Leave a trigger that could not be decided alone for a while (L-13)."""
        with self._database.write() as connection:
            now = self._database.clock.now(connection)
            quarantine = quarantines.put(connection, trigger_id, error, now)
            rates.stop_waiting(connection, [trigger_id])
            key = trigger_store.keys(connection, [trigger_id]).get(trigger_id)
        jobs = self.timers.jobs()
        if trigger_id in jobs:
            self.timers.set(trigger_id, jobs[trigger_id], quarantine.until_at - now)
        self._observations.emit(TriggerQuarantined(key, trigger_id, quarantine.until_at, error))

    def _stop_finished(self) -> None:
        """Deactivate triggers that have no fire left and no backlog (S-15)."""
        with self._database.read() as connection:
            finished = status_store.without_next_fire(connection)
        for trigger_id, spec in finished:
            stop_trigger(self._database, self._observations, trigger_id, over(readable_trigger(spec)))

    def _run(self) -> None:
        now, failures = self._database.clock.monotonic(), 0
        scan_seconds = SCAN_INTERVALS * self._interval.total_seconds()
        timetable = Timetable(poll=now, resync=now, prune=now + PRUNE_SECONDS, scan=now + scan_seconds)
        while self.due_queue.is_open:
            try:
                self._step(timetable)
                failures = 0
            except Exception as error:  # noqa: BLE001  # the loop must outlive any error of a pass (L-11)
                failures += 1
                self._observations.emit(LoopFailed(str(error), unexpected=not isinstance(error, Unavailable)))
                self.wake()  # the failed step may have taken due triggers from the queue; resync finds them overdue
            if failures:
                self.due_queue.wait_for_close(min(2.0**failures, LONGEST_BACKOFF_SECONDS) / 2)
            else:
                self.due_queue.wait(TURN_SECONDS if self._has_more() else POLL_SECONDS)

    def _step(self, timetable: Timetable) -> None:
        """Do what is due by the timetable, by the queue, and what earlier steps left to do."""
        clock, interval_seconds = self._database.clock, self._interval.total_seconds()
        if clock.monotonic() >= timetable.poll:
            timetable.poll = clock.monotonic() + POLL_SECONDS
            self._poll()
        # After the poll, so that the resync it asks for is this one.
        if self.due_queue.pop_resync_request() or clock.monotonic() >= timetable.resync:
            timetable.resync = clock.monotonic() + interval_seconds
            self.resync()
            self._has_backlogs = True
        if clock.monotonic() >= timetable.scan:
            timetable.scan = clock.monotonic() + SCAN_INTERVALS * interval_seconds
            self.scan()
        if clock.monotonic() >= timetable.prune:
            has_more = prune_page(self._database, self._observations, self._retention)
            timetable.prune = clock.monotonic() + (TURN_SECONDS if has_more else PRUNE_SECONDS)
        self.due(self.due_queue.pop_due())
        if self._rate_limited:
            self.take_turns()
        if self._has_backlogs:
            self._has_backlogs = self.catch_up()
        if not self._demand.is_complete:
            self._demand.advance()
        self._budgets.advance()

    def _poll(self) -> None:
        """Request a resync if a trigger, a freeze or a blackout changed; freezes and blackouts are not in the feed."""
        before = self._newest_changes
        with self._database.read() as connection:
            newest = revisions.newest_change(connection), holds.number_of_changes(connection)
        self._newest_changes = newest
        if before not in (None, newest):
            self.due_queue.request_resync()

    def _has_more(self) -> bool:
        has_survey = not (self._demand.is_complete and self._budgets.is_complete)
        return self._rate_limited or self._has_backlogs or has_survey

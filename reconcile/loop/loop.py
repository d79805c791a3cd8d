"""The reconcile loop: resync compares jobs with the database, the due pass decides; one thread does both."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta

from reconcile.decide.automatic_stops import over
from reconcile.decide.demand import is_too_much
from reconcile.decide.job_changes import JobChanges
from reconcile.loop import rate_tokens
from reconcile.loop.alarms import Alarms
from reconcile.loop.budget_survey import Survey
from reconcile.loop.deadlines import Expecting
from reconcile.loop.demand import Demand
from reconcile.loop.due_pass import Decided, Deciding
from reconcile.loop.pruning import Pruning
from reconcile.loop.replica import Replica
from reconcile.loop.scanner import Finding, Scanner
from reconcile.loop.timers import Bell, Timers
from reconcile.observations.observation import Observations
from reconcile.observations.passes import (
    ClockJumped,
    DemandExceeded,
    DemandSummed,
    FindingKind,
    LoopFailed,
    LoopResynced,
    TriggerQuarantined,
)
from reconcile.triggers.activation import resume_paused, stop_trigger
from revisions.errors import Unavailable
from revisions.spec.stored import readable_trigger
from revisions.store import backlogs as backlog_store
from revisions.store import feed, holds, quarantines, rates
from revisions.store import status as status_store
from revisions.store import triggers as trigger_store
from revisions.store.database import Database

BATCH = 500
"""Triggers decided in one transaction, at most."""
AT_ONCE = 2
"""Batches under way: the next is worked out while the database is busy with one."""
ASKED_AGAIN = timedelta(milliseconds=500)
"""A row that somebody else held is asked again within a second."""
POLL_SECONDS = 1.0
"""How often it is looked whether something changed, where nobody notifies."""
TURN_SECONDS = 0.2
"""How often those that wait for a token are given what there is."""
LONGEST_BACKOFF_SECONDS = 30.0
PRUNE_SECONDS = 60.0
"""How often it is asked whether something is old enough to be removed; a page after the other while there is."""
SCAN_EVERY = 10
"""Resync intervals between two scans, with which everything is compared again, not only what changed."""


class Loop:
    """Passes can be called by hand (`resync`, `due`, `catch_up`); `start` has a thread call them when it is time."""

    def __init__(
        self,
        database: Database,
        deciding: Deciding,
        observations: Observations,
        replica: Replica,
        pruning: Pruning,
    ) -> None:
        self._database = database
        self._deciding = deciding
        self._observations = observations
        self._interval = deciding.pace.resync_interval
        self._bell = Bell()
        self.timers = Timers(self._bell.ring, self._interval)
        self._alarms = Alarms(database, self.timers, observations, self._interval)
        self._scanner = Scanner(database, self._alarms, observations, 2 * self._interval)
        self._demand = Demand(database)
        self._expecting = Expecting(database, observations)
        self._survey = Survey(database, observations)
        self._replica = replica
        self._pruning = pruning
        self._waiting = False
        self._exceeded = False
        self._batches = ThreadPoolExecutor(AT_ONCE, "deciding")
        self._thread: threading.Thread | None = None

    def resync(self, *, full: bool = False) -> JobChanges:
        """Makes the jobs what the database says, and decides what is overdue, whatever became of its alarm (L-03).

        With `full` everything is compared, not only what changed since the last time. Nothing is decided while the
        clock seems to have jumped (L-12).
        """
        began = self._database.clock.monotonic()
        with self._database.read() as connection:
            now = self._database.clock.now(connection)
        if is_believed := self._deciding.jumps.confirms(now, self._database.clock.monotonic()):
            resume_paused(self._database, self._observations)
        else:
            self._observations.emit(ClockJumped(now))
        changes = self._alarms.follow(full=full)
        if is_believed:
            self.due(self._overdue())
            self.take_turns()
            self.catch_up()
            self._stop_finished()
            self._expecting.look()
        self._replica.beat(self._interval)
        self._demand.follow(changes)
        self._tell_demand()
        self._go_on_with_survey()
        seconds = self._database.clock.monotonic() - began
        self._observations.emit(LoopResynced(changes, len(self.timers.jobs()), seconds))
        return changes

    def scan(self) -> list[Finding]:
        """Looks for what should not be, and mends it (L-16); costs as much as there is, so it is done now and then."""
        found = self._scanner.scan()
        self._survey.begin()
        self._go_on_with_survey()
        self.due([finding.subject for finding in found if finding.kind is FindingKind.OVERDUE])
        return found

    def due(self, ids: Sequence[str], *, in_turn: bool = False) -> int:
        """Decides these triggers in batches and moves their alarms; answers how many runs were made."""
        batches = [sorted(ids[start : start + BATCH]) for start in range(0, len(ids), BATCH)]

        def decide(batch: Sequence[str]) -> Decided:
            return self._isolating(batch, lambda part: self._deciding.due(part, in_turn=in_turn))

        started = 0
        for decided in self._batches.map(decide, batches) if len(batches) > 1 else map(decide, batches):
            started += decided.started
            self._waiting |= decided.refused
            self._follow(decided)
        return started

    def take_turns(self) -> None:
        """Decides those that wait for a token, as far as there are tokens, fairly by project (L-09)."""
        with self._database.read() as connection:
            now = self._database.clock.now(connection)
            room = rate_tokens.available(connection, self._deciding.pace, now)
            ids = rates.next_in_turn(connection, min(max(room, 1), BATCH))
        self._waiting = bool(ids)
        if ids and room:
            self.due(ids, in_turn=True)

    def catch_up(self) -> bool:
        """Serves the backlogs within this loop's cap; True when more of them waits for nothing but tokens."""
        while True:
            with self._database.read() as connection:
                now = self._database.clock.now(connection)
                most = self._deciding.pace.max_catchup_runs_per_loop
                frozen = holds.frozen_projects(connection, now)
                ids = [] if frozen is None else backlog_store.least_recently_served(connection, now, most, frozen)
            if not ids:
                return False
            decided = self._isolating(ids, self._deciding.catch_up)
            self._follow(decided)
            if decided.started == 0 or decided.refused:
                return decided.refused

    def wake(self) -> None:
        """Something changed: resync soon. Any thread may call it, and a lost or doubled call is harmless."""
        self._bell.wake()

    def start(self) -> None:
        """Runs the passes in a thread of the loop's own."""
        self.timers.start()
        self._thread = threading.Thread(target=self._run, name="loop", daemon=True)
        self._thread.start()

    def lives(self) -> bool:
        """Whether the thread is there."""
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> None:
        """Ends the thread after the pass it is in."""
        self._bell.close()
        if self._thread:
            self._thread.join()
        self._batches.shutdown()
        self.timers.stop()  # last: the pass that was under way still sets alarms
        with suppress(Unavailable):
            self._replica.leave()

    def _tell_demand(self) -> None:
        if not self._demand.is_complete:
            self._demand.look()
        asked, allowed = self._demand.per_second, self._deciding.pace.execution_qps
        self._observations.emit(DemandSummed(asked))
        was, self._exceeded = self._exceeded, is_too_much(asked, allowed)
        if self._exceeded and not was:
            self._observations.emit(DemandExceeded(asked, allowed))

    def _go_on_with_survey(self) -> None:
        if not self._survey.is_complete:
            self._survey.look()

    def _overdue(self) -> list[str]:
        with self._database.read() as connection:
            now = self._database.clock.now(connection)
            frozen = holds.frozen_projects(connection, now)
            return [] if frozen is None else status_store.due(connection, now, frozen)

    def _isolating(self, ids: Sequence[str], decide: Callable[[Sequence[str]], Decided]) -> Decided:
        """One batch; where data makes it fail it is halved until the culprit stands alone (L-13)."""
        try:
            return decide(ids)
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001  # whatever one row's data did, the others go on
            if len(ids) == 1:
                return Decided(unreadable={ids[0]: repr(error)})
        middle = len(ids) // 2
        return self._isolating(ids[:middle], decide).joined(self._isolating(ids[middle:], decide))

    def _follow(self, decided: Decided) -> None:
        jobs = self.timers.jobs()
        for trigger, revision, span in decided.alarms:
            if jobs.get(trigger) == revision:
                self.timers.set(trigger, revision, span if span is not None else self._interval)
        for trigger in decided.busy:
            if trigger in jobs:
                self.timers.set(trigger, jobs[trigger], ASKED_AGAIN)
        for trigger, stop in decided.stopping.items():
            stop_trigger(self._database, self._observations, trigger, stop)
        for trigger, error in decided.unreadable.items():
            self._set_apart(trigger, error)
        if any(span is None for _, _, span in decided.alarms):
            self._stop_finished()

    def _set_apart(self, trigger_id: str, error: str) -> None:
        """Leaves a trigger that could not be decided alone for a while; the others go on (L-13)."""
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
        with self._database.read() as connection:
            finished = status_store.without_next_fire(connection)
        for trigger_id, spec in finished:
            stop_trigger(self._database, self._observations, trigger_id, over(readable_trigger(spec)))

    def _run(self) -> None:
        clock = self._database.clock
        failures, catching_up = 0, False
        seen: tuple[int, int] | None = None
        next_resync = next_poll = clock.monotonic()
        next_prune = next_resync + PRUNE_SECONDS
        next_scan = next_resync + SCAN_EVERY * self._interval.total_seconds()
        while self._bell.open:
            try:
                if clock.monotonic() >= next_poll:
                    next_poll = clock.monotonic() + POLL_SECONDS
                    seen, before = self._newest_change(), seen
                    if before not in (None, seen):
                        self._bell.wake()
                if self._bell.woken() or clock.monotonic() >= next_resync:  # it sees what the poll saw
                    next_resync = clock.monotonic() + self._interval.total_seconds()
                    self.resync()
                    catching_up = True
                if clock.monotonic() >= next_scan:
                    next_scan = clock.monotonic() + SCAN_EVERY * self._interval.total_seconds()
                    self.scan()
                if clock.monotonic() >= next_prune:
                    next_prune = clock.monotonic() + (TURN_SECONDS if self._pruning.step() else PRUNE_SECONDS)
                self.due(self._bell.take())
                if self._waiting:
                    self.take_turns()
                if catching_up:
                    catching_up = self.catch_up()
                if not self._demand.is_complete:
                    self._tell_demand()
                self._go_on_with_survey()
                failures = 0
            except Exception as error:  # noqa: BLE001  # the loop outlives whatever a pass ran into (L-11)
                failures += 1
                self._observations.emit(LoopFailed(str(error), unexpected=not isinstance(error, Unavailable)))
                self._bell.wake()
            has_more = self._waiting or catching_up or not (self._demand.is_complete and self._survey.is_complete)
            pause = TURN_SECONDS if has_more else POLL_SECONDS
            if failures:
                pause = min(2.0**failures, LONGEST_BACKOFF_SECONDS) / 2
            self._bell.wait(pause, patiently=failures > 0)

    def _newest_change(self) -> tuple[int, int]:
        """Of triggers, and of freezes and blackouts, which are not in the feed."""
        with self._database.read() as connection:
            return feed.newest_change(connection), holds.number_of_changes(connection)

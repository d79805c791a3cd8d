"""The due pass and the catch-up pass: lock status rows, read facts, let the rules decide, commit in one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from reconcile.decide import admission, catchup
from reconcile.decide.admission import Pace
from reconcile.decide.automatic_stops import Stop
from reconcile.decide.catchup import CatchupPlan
from reconcile.loop import facts, rate_tokens
from reconcile.loop.clock_guard import Jumps
from reconcile.loop.decision_rows import Records
from reconcile.loop.facts import CaseBatch, TriggerCase
from reconcile.observations.observation import Observations
from reconcile.observations.passes import PassDecided, PassKind
from reconcile.observations.runs import WaitEnded
from reconcile.schedule.definition import EPOCH
from reconcile.schedule.fires import fires
from revisions.store import backlogs as backlog_store
from revisions.store import quarantines, rates
from revisions.store import status as status_store
from revisions.store.backlogs import Backlog
from revisions.store.database import Connection, Database
from revisions.store.status import StatusRow

WHILE_FROZEN = timedelta(days=1)
"""When a frozen trigger is looked at again, where nobody said when its freeze ends: lifting it has all looked at."""


@dataclass(slots=True)
class Decided:
    """What a pass did, for the loop to follow up; nothing of it is needed for the truth.

    `alarms` are (trigger, revision, span until it is due again, None when no fire is left); `busy` are triggers whose
    row somebody else held; `stopping` are to stop by themselves, and why; `unreadable` could not be decided, and why.
    `refused`: something waits for a token.
    """

    alarms: list[tuple[str, int, timedelta | None]] = field(default_factory=list)
    busy: list[str] = field(default_factory=list)
    stopping: dict[str, Stop] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    started: int = 0
    refused: bool = False

    def joined(self, other: "Decided") -> "Decided":
        """What two passes did together."""
        return Decided(
            alarms=self.alarms + other.alarms,
            busy=self.busy + other.busy,
            stopping=self.stopping | other.stopping,
            unreadable=self.unreadable | other.unreadable,
            started=self.started + other.started,
            refused=self.refused or other.refused,
        )


class Deciding:
    """Turns what is due into runs and recorded skips."""

    def __init__(self, database: Database, observations: Observations, pace: Pace) -> None:
        self._database = database
        self._observations = observations
        self.pace = pace
        self.jumps = Jumps()

    def due(self, ids: Sequence[str], *, in_turn: bool = False) -> Decided:
        """Decides everything undecided of these triggers up to now; `in_turn` says that they have waited for a token.

        The status row carries the revision, so its lock is the fence: a deploy takes it too, and what is decided here
        is decided from the revision in force (L-15). A row that somebody holds is left to a later pass.
        """
        decided, begun = Decided(), self._database.clock.monotonic()
        with self._database.write() as connection:
            rows = status_store.lock(connection, ids, skip_locked=True)
            now = self._database.clock.now(connection)
            decided.busy = sorted(set(ids) - {row.trigger_id for row in rows})
            if not self.jumps.believes(now, self._database.clock.monotonic()):
                return Decided(busy=list(ids))
            read = facts.read(connection, _due(rows, now, decided), now, self.pace.grace)
            plans = [catchup.plan(case.terms, case.status.watermark, case.situation) for case in read.cases]
            wants = [(case.facts.project, plan) for case, plan in zip(read.cases, plans, strict=True)]
            shares = rate_tokens.for_live(connection, self.pace, wants, now, in_turn=in_turn, waiting=read.waiting)
            records = Records(now)
            for case, plan, share in zip(read.cases, plans, shares, strict=True):
                self._move(case, plan, plan.granted(share), records, decided)
            records.store(connection)
            if read.tried_again:
                quarantines.lift(connection, read.tried_again)
            self._note(connection, read, now, decided)
        self._report(PassKind.DUE, records, decided, begun)
        return decided

    def catch_up(self, ids: Sequence[str]) -> Decided:
        """Starts the next part of these triggers' backlogs, within this loop's cap and the rate (L-06, L-07).

        They are given least recently served first, and nothing beyond what the cap leaves is asked for; `refused` says
        that more could start in this loop once there are tokens.
        """
        decided, begun = Decided(), self._database.clock.monotonic()
        with self._database.write() as connection:
            rows = status_store.lock(connection, sorted(ids), skip_locked=True)
            backlogs: dict[str, Backlog] = {}
            for backlog in backlog_store.get(connection, [row.trigger_id for row in rows]):
                backlogs.setdefault(backlog.trigger_id, backlog)
            now = self._database.clock.now(connection)
            if not self.jumps.believes(now, self._database.clock.monotonic()):
                return decided
            slot = (now - EPOCH) // self.pace.resync_interval
            used = rates.lock_catchup_use(connection, slot)
            cap = max(0, self.pace.max_catchup_runs_per_loop - used)
            read = facts.read(connection, [row for row in rows if row.trigger_id in backlogs], now, self.pace.grace)
            served = _in_order(ids, read.cases)[:cap]
            parts = self._parts(served, backlogs, cap)
            wants = [(case.facts.project, plan) for case, _, plan in parts]
            shares = rate_tokens.for_catchup(connection, self.pace, wants, now)
            records = Records(now)
            for (case, backlog, plan), share in zip(parts, shares, strict=True):
                granted = plan.granted(share)
                records.add(case, granted)
                backlog_store.serve(connection, backlog, granted.watermark, now)
            rates.set_catchup_use(connection, slot, used + len(records.runs))
            records.store(connection)
            decided.refused = sum(len(plan.starts) for _, _, plan in parts) > len(records.runs)
            self._note(connection, read, now, decided)
        self._report(PassKind.CATCH_UP, records, decided, begun)
        return decided

    def _parts(
        self, served: Sequence[TriggerCase], backlogs: dict[str, Backlog], cap: int
    ) -> list[tuple[TriggerCase, Backlog, CatchupPlan]]:
        parts = []
        for case, share in zip(served, admission.share_cap(len(served), cap), strict=True):
            backlog = backlogs[case.status.trigger_id]
            plan = catchup.drain(case.terms, backlog.cursor_at, backlog.until_at, share, case.situation)
            parts.append((case, backlog, plan))
        return parts

    def _move(
        self, case: TriggerCase, plan: CatchupPlan, granted: CatchupPlan, records: Records, decided: Decided
    ) -> None:
        """The status after a decision: watermark, next fire and last outcome; and the alarm that follows from it."""
        now, row, refused = records.now, case.status, plan.starts[len(granted.starts) :]
        next_fire_at = self._next_fire_at(case, granted, refused)
        waiting_since = (row.rate_waiting_since or now) if refused else None
        moved = {"watermark": granted.watermark, "next_fire_at": next_fire_at, "rate_waiting_since": waiting_since}
        records.add(case, granted, **moved)
        span = next_fire_at - now if next_fire_at else None
        if refused:  # its turn comes by the queue, the alarm is only the net
            span, decided.refused = self.pace.resync_interval, True
        decided.alarms.append((row.trigger_id, row.revision, span))

    def _next_fire_at(self, case: TriggerCase, granted: CatchupPlan, refused: Sequence[object]) -> datetime | None:
        """When a pass has to look at the trigger again, by the real clock; None when nothing is to come."""
        if granted.held_until:
            return granted.held_until + case.late
        remaining = case.situation.remaining
        if remaining is not None and len(granted.starts) >= remaining:
            return None
        asked = None if granted.is_asked else case.situation.asked
        ahead = asked or granted.ahead
        if ahead is None:
            ahead = next(iter(fires(case.terms.schedule, granted.watermark, None, 1)), None)
        if ahead:
            return ahead.at + case.late
        expires_at = case.terms.expires_at
        return expires_at if expires_at and granted.watermark < expires_at - case.late else None

    def _note(self, connection: Connection, read: CaseBatch, now: datetime, decided: Decided) -> None:
        """What of a batch was no case; what is held does not stand in the way of those that wait for a token."""
        spent = {case.status.trigger_id: stop for case in read.cases if (stop := case.stop(now))}
        decided.stopping = read.stopping | spent
        decided.unreadable = read.unreadable
        rates.stop_waiting(connection, [row.trigger_id for row, _ in read.held])
        for row, until in read.held:
            decided.alarms.append((row.trigger_id, row.revision, until - now if until else WHILE_FROZEN))

    def _report(self, kind: PassKind, records: Records, decided: Decided, begun: float) -> None:
        decided.started = len(records.runs)
        lateness = [(records.now - run.scheduled_at).total_seconds() for run in records.runs]
        self._observations.emit(
            PassDecided(
                kind=kind,
                at=records.now,
                seconds=self._database.clock.monotonic() - begun,
                made=records.made,
                changes=records.changes,
                started=decided.started,
                lateness=lateness,
                waited=records.waited,
                skips=records.skips,
                backlogs=records.backlogs,
            )
        )
        for run, trigger in records.cancelled:
            self._observations.emit(WaitEnded(run, trigger, records.now))


def _due(rows: Sequence[StatusRow], now: datetime, decided: Decided) -> list[StatusRow]:
    """Those whose time has come: every replica is woken for every trigger, and most find it decided already."""
    due = []
    for row in rows:
        if row.next_fire_at is None or row.next_fire_at <= now:
            due.append(row)
        else:
            decided.alarms.append((row.trigger_id, row.revision, row.next_fire_at - now))
    return due


def _in_order(ids: Sequence[str], of: Sequence[TriggerCase]) -> list[TriggerCase]:
    by_id = {case.status.trigger_id: case for case in of}
    return [by_id[id] for id in ids if id in by_id]

"""Admission of starts: rate tokens, the catch-up cap, overlap policies and concurrency limits.

It also computes the start rate that schedules ask for (L-09, L-10, L-18, X-09).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from reconcile.schedule.definition import Bounded, Every, Once, Schedule
from reconcile.schedule.fires import Fire, count
from revisions.run_limits import FullLimits, RunningRun, WaitingRun
from revisions.spec.trigger import OverlapPolicy

FULL: Final = 0.7
"""Share of the allowed rate above which the backlog of a burst is no longer worked off in time."""
DAY: Final = timedelta(days=1)
CATCHUP_SHARE = 10
"""One token in this many is reserved for catch-up (L-09)."""


def share_tokens(wants: Sequence[tuple[str, Sequence[Fire]]], tokens: int) -> list[int]:
    """Return how many starts of each trigger get a token; `wants` are (project, its starts) pairs.

    Projects take turns, and within a project the oldest fire goes first, so that a burst in one project does not starve
    another (L-09).
    """
    wanted = sum(len(fires) for _, fires in wants)
    if tokens >= wanted:
        return [len(fires) for _, fires in wants]
    oldest = sorted((fire.at, owner) for owner, (_, fires) in enumerate(wants) for fire in fires)
    turns: Counter[str] = Counter()
    queue = []
    for at, owner in oldest:
        project = wants[owner][0]
        queue.append((turns[project], at, owner))
        turns[project] += 1
    granted = [0] * len(wants)
    for _, _, owner in sorted(queue)[:tokens]:
        granted[owner] += 1
    return granted


def share_cap(claimants: int, cap: int) -> list[int]:
    """Divide the catch-up cap evenly among triggers, ordered by least recently served; the first ones get the
    remainder.
    """
    if claimants == 0:
        return []
    each, rest = divmod(cap, claimants)
    return [each + (position < rest) for position in range(claimants)]


def available(empty_until: datetime | None, now: datetime, *, per_second: float, burst: int) -> int:
    """Return the tokens in a bucket (GCRA, L-10). `empty_until` is the stored state: the instant at which it is full
    again.
    """
    interval = timedelta(seconds=1 / per_second)
    room = now + burst * interval - max(empty_until or now, now)
    return max(0, int(room / interval + 1e-6))


def bucket(
    empty_until: datetime | None, now: datetime, wanted: int, *, per_second: float, burst: int, reserve: int = 0
) -> tuple[int, datetime]:
    """Take tokens from a bucket, leaving `reserve` in it. Return the number granted and the new state of the bucket."""
    left = available(empty_until, now, per_second=per_second, burst=burst) - reserve
    granted = max(0, min(wanted, left))
    return granted, max(empty_until or now, now) + granted * timedelta(seconds=1 / per_second)


@dataclass(frozen=True, slots=True)
class Pace:
    """Limits on how much may start (L-02). An `execution_qps` of 0 switches the rate limit off."""

    resync_interval: timedelta = timedelta(seconds=30)
    live_grace: timedelta = timedelta(seconds=60)
    max_catchup_runs_per_loop: int = 100
    execution_qps: float = 10.0
    execution_burst: int = 20

    @property
    def grace(self) -> timedelta:
        """Age up to which an occurrence is live, at least two resync intervals (L-06)."""
        return max(self.live_grace, 2 * self.resync_interval)


@dataclass(frozen=True, slots=True)
class Demanded:
    """Starts per second that the active schedules ask for, and the `execution_qps` that is allowed (0: no limit)."""

    asked: float
    allowed: float

    @property
    def is_too_much(self) -> bool:
        return is_too_much(self.asked, self.allowed)


def per_second(schedule: Schedule, now: datetime) -> float:
    """Return the starts per second of a schedule, as the mean over the day after `now`."""
    beat = schedule.beat if isinstance(schedule, Bounded) else schedule
    match beat:
        case Once():
            return 0.0
        case Every(every) if schedule is beat:
            return 1 / every.total_seconds()
        case _:
            return count(schedule, now, now + DAY, int(DAY.total_seconds())) / DAY.total_seconds()


def is_too_much(asked: float, allowed: float) -> bool:
    """Return true when the schedules ask for more than 70 % of the allowed rate; a rate of 0 has no limit (L-18)."""
    return allowed > 0 and asked > FULL * allowed


POLICIES: Final[tuple[str, ...]] = tuple(policy.value for policy in OverlapPolicy)
ONE_AT_A_TIME: Final = frozenset(OverlapPolicy) - {OverlapPolicy.ALLOW, OverlapPolicy.SKIP}
"""Policies under which a run waits for all earlier runs of its trigger."""
DISPLACING: Final = frozenset({OverlapPolicy.CANCEL, OverlapPolicy.TERMINATE})
"""Policies under which a run ends the live runs of its trigger."""


def room(policy: str, live: int) -> int | None:
    """Return how many runs may start beside `live` ones, None for no limit.

    `skip` allows one live run; `queue_one` allows one more to wait.
    """
    match policy:
        case OverlapPolicy.SKIP:
            return max(0, 1 - live)
        case OverlapPolicy.QUEUE_ONE:
            return max(0, 2 - live)
        case _ if policy in DISPLACING:
            return 1
        case _:
            return None


class Turns:
    """Grants turns to pending runs, each counted against the limits of later ones; `full` holds the limits reached."""

    def __init__(self, running: Iterable[RunningRun], most: int, frozen: Iterable[str] = ()) -> None:
        self.full = FullLimits(projects=set(frozen))
        self.left = most
        self._triggers: Counter[str] = Counter()
        self._tasks: Counter[tuple[str, str, str]] = Counter()
        for one in running:
            self._count(one)

    def grant(self, waiting: Iterable[WaitingRun]) -> list[str]:
        """Return the ids of the runs that may start, in the given order."""
        return [one.id for one in waiting if self.left > 0 and self._may_go(one)]

    def _may_go(self, one: WaitingRun) -> bool:
        task = (one.project, one.domain, one.task)
        if one.project in self.full.projects:
            return False
        if one.serialize_key is not None and (one.project, one.serialize_key) in self.full.keys:
            return False
        if one.concurrency_limit is not None and self._triggers[one.trigger_id] >= one.concurrency_limit:
            self.full.triggers.add(one.trigger_id)
            return False
        if one.task_limit is not None and self._tasks[task] >= one.task_limit:
            self.full.tasks.add(task)
            return False
        self._count(RunningRun(one.trigger_id, *task, one.serialize_key))
        self.left -= 1
        return True

    def _count(self, one: RunningRun) -> None:
        self._triggers[one.trigger_id] += 1
        self._tasks[one.project, one.domain, one.task] += 1
        if one.serialize_key is not None:
            self.full.keys.add((one.project, one.serialize_key))

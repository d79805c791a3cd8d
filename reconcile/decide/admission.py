"""Distribution of rate tokens and of the catch-up cap, and the start rate that schedules ask for (L-09, L-10, L-18)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from reconcile.schedule.definition import Bounded, Every, Once, Schedule
from reconcile.schedule.fires import Fire, count

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

"""How a pass's tokens and its catch-up cap are shared out."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from reconcile.schedule.fires import Fire

CATCHUP_SHARE = 10
"""One token in so many is kept for what is caught up (L-09)."""


def share_tokens(wants: Sequence[tuple[str, Sequence[Fire]]], tokens: int) -> list[int]:
    """How many of each trigger's starts may go; `wants` are (project, its starts).

    The projects take turns, and in each the oldest scheduled goes first: a burst of one does not starve another (L-09).
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
    """The catch-up cap over triggers, least recently served first: even shares, the rest to the first of them."""
    if claimants == 0:
        return []
    each, rest = divmod(cap, claimants)
    return [each + (position < rest) for position in range(claimants)]


def available(empty_until: datetime | None, now: datetime, *, per_second: float, burst: int) -> int:
    """Tokens that a bucket holds (GCRA: L-10); it is one instant: when it would be full again, were no more taken."""
    interval = timedelta(seconds=1 / per_second)
    room = now + burst * interval - max(empty_until or now, now)
    return max(0, int(room / interval + 1e-6))


def bucket(
    empty_until: datetime | None, now: datetime, wanted: int, *, per_second: float, burst: int, reserve: int = 0
) -> tuple[int, datetime]:
    """Tokens granted of those wanted, but for a reserve that is left in the bucket, and the bucket's new instant."""
    left = available(empty_until, now, per_second=per_second, burst=burst) - reserve
    granted = max(0, min(wanted, left))
    return granted, max(empty_until or now, now) + granted * timedelta(seconds=1 / per_second)


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

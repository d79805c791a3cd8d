"""How a pass's tokens and its catch-up cap are shared out."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from reconcile.rules.schedule import Fire


def share_tokens(starts: Sequence[Sequence[Fire]], tokens: int) -> list[int]:
    """How many of each trigger's starts may go: the oldest scheduled first, whoever's they are."""
    wanted = sum(map(len, starts))
    if tokens >= wanted:
        return [len(fires) for fires in starts]
    oldest = sorted((fire.at, owner) for owner, fires in enumerate(starts) for fire in fires)
    granted = [0] * len(starts)
    for _, owner in oldest[:tokens]:
        granted[owner] += 1
    return granted


def share_cap(claimants: int, cap: int) -> list[int]:
    """The catch-up cap over triggers, least recently served first: even shares, the rest to the first of them."""
    if claimants == 0:
        return []
    each, rest = divmod(cap, claimants)
    return [each + (position < rest) for position in range(claimants)]


def bucket(
    empty_until: datetime | None, now: datetime, wanted: int, *, per_second: float, burst: int
) -> tuple[int, datetime]:
    """Tokens granted of those wanted, and the bucket's new instant (GCRA: L-10).

    The bucket is one instant: the time at which it would be full again, were nothing more taken.
    """
    interval = timedelta(seconds=1 / per_second)
    start = max(empty_until or now, now)
    room = now + burst * interval - start
    granted = max(0, min(wanted, int(room / interval + 1e-6)))
    return granted, start + granted * interval

"""Accounting for a trigger that fires every second: each second must be one run or lie in one recorded skip."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from revisions.store.occurrences import Skip
from revisions.store.runs import Run

SECOND = timedelta(seconds=1)


@dataclass(frozen=True)
class Account:
    """Seconds of one trigger: all that passed, those with a run and those in recorded skips."""

    passed: list[datetime]
    run: Counter[datetime]
    skipped: Counter[datetime]

    @property
    def wrong(self) -> dict[datetime, tuple[int, int]]:
        """Return seconds without exactly one run or skip, and runs or skips outside the period, with both counts."""
        seconds = {*self.passed, *self.run, *self.skipped}
        counts = {second: (self.run[second], self.skipped[second]) for second in sorted(seconds)}
        passed = set(self.passed)
        return {second: pair for second, pair in counts.items() if second not in passed or sum(pair) != 1}


def account(runs: Sequence[Run], skips: Sequence[Skip], began: datetime, ended: datetime) -> Account:
    """Return the account of (began, ended] for a trigger with `every: 1s`."""
    skipped: Counter[datetime] = Counter()
    for skip in skips:
        span = list(_seconds(skip.scheduled_at - SECOND, skip.scheduled_until))
        assert skip.count == len(span), skip
        skipped.update(span)
    return Account(list(_seconds(began, ended)), Counter(run.scheduled_at for run in runs), skipped)


def _seconds(after: datetime, until: datetime) -> Iterator[datetime]:
    """Yield the whole seconds in (after, until]."""
    second = after.replace(microsecond=0) + SECOND
    while second <= until:
        yield second
        second += SECOND

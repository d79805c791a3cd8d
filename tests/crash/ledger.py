"""The account of a trigger that fires every second: each second that passed, exactly one run or in exactly one skip."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from revisions.store.occurrences import Skip
from revisions.store.runs import Run

SECOND = timedelta(seconds=1)


@dataclass(frozen=True)
class Account:
    """Seconds of one trigger: those that passed, those that became runs, those that lie in recorded skips."""

    passed: list[datetime]
    run: Counter[datetime]
    skipped: Counter[datetime]

    @property
    def wrong(self) -> dict[datetime, tuple[int, int]]:
        """Seconds that are not exactly one run or one skip, or that never were, with how many of each they have."""
        seconds = {*self.passed, *self.run, *self.skipped}
        found = {second: (self.run[second], self.skipped[second]) for second in sorted(seconds)}
        real = set(self.passed)
        return {second: pair for second, pair in found.items() if second not in real or sum(pair) != 1}


def account(runs: Sequence[Run], skips: Sequence[Skip], began: datetime, ended: datetime) -> Account:
    """The account of (began, ended] for `every: 1s`."""
    skipped: Counter[datetime] = Counter()
    for skip in skips:
        span = list(_seconds(skip.scheduled_at - SECOND, skip.scheduled_until))
        assert skip.count == len(span), skip
        skipped.update(span)
    return Account(list(_seconds(began, ended)), Counter(run.scheduled_at for run in runs), skipped)


def _seconds(after: datetime, until: datetime) -> Iterator[datetime]:
    """The whole seconds in (after, until]."""
    second = after.replace(microsecond=0) + SECOND
    while second <= until:
        yield second
        second += SECOND

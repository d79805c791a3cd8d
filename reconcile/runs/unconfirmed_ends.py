"""Ends of attempts whose commit was sent but never confirmed, because the connection died at that moment.

The crash window: a worker settles an attempt, the database commits, and the confirmation is lost. The worker settles
again and finds the run no longer claimed, which looks exactly as if somebody else had settled it. It would then not
emit the observations of its own end, and a deactivation that follows from it would wait for the scanner. So the worker
remembers what it wrote until a later transaction shows whether that was committed. A worker that is killed forgets it;
only observations are lost then, for everything else is in the database (invariant 5).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from reconcile.decide.retry import RunEnd
from reconcile.runs.attempt import ClaimKey, Ended
from reconcile.runs.endings import EndedAttempt, Settled
from revisions.outcomes import RunStatus
from revisions.store.runs import Run


@dataclass(frozen=True, slots=True)
class WrittenEnd:
    """End of an attempt as it was written at an instant: its result, and the decision that followed."""

    attempt: EndedAttempt
    ended: Ended
    settled: Settled
    at: datetime

    def was_committed(self, run: Run | None) -> bool:
        """Return whether a locked run is in the state that this write left; `at` tells it from another worker's."""
        if run is None or run.claim != self.attempt.run.claim:
            return False
        match self.settled.decision:
            case None:
                return False
            case RunEnd(status):
                return (run.status, run.finished_at) == (status, self.at)
            case pending_again:
                return (run.status, run.available_at) == (RunStatus.PENDING, pending_again.at)


class UnconfirmedEnds:
    """Ends that one worker wrote and whose commit is not confirmed."""

    def __init__(self) -> None:
        self._written: dict[ClaimKey, WrittenEnd] = {}

    @property
    def attempts(self) -> list[EndedAttempt]:
        """Attempts to settle again, in order to learn whether their end was committed."""
        return [written.attempt for written in self._written.values()]

    def committed(self, run: Run | None, attempted: Run) -> WrittenEnd | None:
        """Return the earlier write for an attempt if its locked run shows that it was committed."""
        written = self._written.get(_key(attempted))
        return written if written and written.was_committed(run) else None

    def add(self, written: Iterable[WrittenEnd]) -> None:
        """Remember ends that are about to be committed."""
        self._written |= {_key(end.attempt.run): end for end in written}

    def remove(self, attempts: Iterable[EndedAttempt]) -> None:
        """Forget ends of which it is known whether they were committed."""
        for attempt in attempts:
            self._written.pop(_key(attempt.run), None)


def _key(run: Run) -> ClaimKey:
    return run.id, run.claim

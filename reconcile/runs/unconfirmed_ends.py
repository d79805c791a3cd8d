"""Ends that were written, and of whose commit nobody heard, as when the connection dies in that moment."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from reconcile.decide.retry import RunEnd
from reconcile.runs.attempt import Ended, Key
from reconcile.runs.endings import Ending, Settled
from revisions.errors import Unavailable
from revisions.outcomes import RunStatus
from revisions.store.runs import Run


@dataclass(frozen=True, slots=True)
class Written:
    """How an attempt ended as it was judged, what became of it, and when."""

    ending: Ending
    ended: Ended
    settled: Settled
    at: datetime

    def is_there(self, run: Run | None) -> bool:
        """Whether a run, locked, is as this very end left it: the instant of the writing tells it from another's."""
        if run is None or run.claim != self.ending.run.claim:
            return False
        match self.settled.decision:
            case None:
                return False
            case RunEnd(status):
                return (run.status, run.finished_at) == (status, self.at)
            case again:
                return (run.status, run.available_at) == (RunStatus.PENDING, again.at)


class Unheard:
    """Those of one worker, until it is known whether they are there."""

    def __init__(self) -> None:
        self._written: dict[Key, Written] = {}

    @property
    def endings(self) -> list[Ending]:
        """What is to be settled again, to hear of it."""
        return [one.ending for one in self._written.values()]

    def earlier(self, run: Run | None, ours: Run) -> Written | None:
        """What was written of an attempt before, if its locked run shows that it is there."""
        found = self._written.get(_key(ours))
        return found if found and found.is_there(run) else None

    def keep(self, some: Iterable[Written]) -> None:
        """They are about to be committed."""
        self._written |= {_key(one.ending.run): one for one in some}

    @contextmanager
    def listening(self, some: Sequence[Ending]) -> Iterator[None]:
        """For settling them: they are heard of afterwards, however it ends but by Unavailable."""
        is_heard = True
        try:
            yield
        except Unavailable:
            is_heard = False
            raise
        finally:
            for one in some if is_heard else ():
                self._written.pop(_key(one.run), None)


def _key(run: Run) -> Key:
    return run.id, run.claim

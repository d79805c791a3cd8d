"""Overlap policies of triggers and concurrency limits of pending runs (X-09)."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from revisions.run_limits import FullLimits, RunningRun, WaitingRun
from revisions.spec.trigger import OverlapPolicy

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

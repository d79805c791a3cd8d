"""Whose turn it is: which of the waiting runs may go beside those that run (X-04)."""

from collections import Counter
from collections.abc import Iterable

from revisions.places import Full, Running, Waiting


class Turns:
    """Grants turns, at most so many, each counting for those after it; `full` is what lets nothing more go."""

    def __init__(self, running: Iterable[Running], most: int, frozen: Iterable[str] = ()) -> None:
        self.full = Full(projects=set(frozen))
        self.left = most
        self._triggers: Counter[str] = Counter()
        self._tasks: Counter[tuple[str, str, str]] = Counter()
        for one in running:
            self._count(one)

    def grant(self, waiting: Iterable[Waiting]) -> list[str]:
        """The ids of those that may go, in the order given."""
        return [one.id for one in waiting if self.left > 0 and self._may_go(one)]

    def _may_go(self, one: Waiting) -> bool:
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
        self._count(Running(one.trigger_id, *task, one.serialize_key))
        self.left -= 1
        return True

    def _count(self, one: Running) -> None:
        self._triggers[one.trigger_id] += 1
        self._tasks[one.project, one.domain, one.task] += 1
        if one.serialize_key is not None:
            self.full.keys.add((one.project, one.serialize_key))

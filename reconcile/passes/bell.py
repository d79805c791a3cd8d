"""What wakes the loop's thread: ids that are due, and that something changed, from any thread."""

import threading


class Bell:
    """Rings and wakes are only hints: a lost or doubled one is harmless, for the pass reads the truth again."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: set[str] = set()
        self._woken = False
        self.open = True

    def ring(self, trigger_id: str) -> None:
        """A trigger is due."""
        with self._changed:
            self._due.add(trigger_id)
            self._changed.notify()

    def wake(self) -> None:
        """Something changed."""
        with self._changed:
            self._woken = True
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self.open = False
            self._changed.notify()

    def woken(self) -> bool:
        """Whether something changed since the last time this was asked."""
        with self._changed:
            woken, self._woken = self._woken, False
        return woken

    def take(self) -> list[str]:
        """The triggers that rang since the last time."""
        with self._changed:
            due, self._due = self._due, set()
        return sorted(due)

    def wait(self, seconds: float, *, patiently: bool) -> None:
        """Until something is due or changed, at most `seconds`; patiently, nothing but the close cuts it short."""
        with self._changed:
            self._changed.wait_for(lambda: not self.open or (not patiently and (self._due or self._woken)), seconds)

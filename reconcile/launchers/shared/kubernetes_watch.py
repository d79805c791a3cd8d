"""A watch: what a cluster tells of the Jobs in one namespace, by one stream for all attempts there.

It wakes them by their Jobs' names, and says nothing else: who is woken looks. So what is told late, twice or never does
no harm, and a stream that broke off, for whatever reason, simply begins anew, with all Jobs as they are then.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

PAUSES = (1.0, 30.0)
"""Seconds between two streams: at least, and at most; a stream that lasts for longer than these is no failure."""

Waiter = tuple[str, Callable[[], None]]
"""A name, and what wakes who waits for it."""


class JobWatch:
    """`stream` answers names until it breaks off, raising whatever it likes; the first ones are of all that is there.

    Its thread lives while somebody waits, and until the stream ends after that.
    """

    def __init__(self, namespace: str, stream: Callable[[], Iterator[str]]) -> None:
        self._namespace = namespace
        self._stream = stream
        self._lock = threading.Lock()
        self._waiting: set[Waiter] = set()
        self._thread: threading.Thread | None = None
        self._is_live = False

    def join(self, name: str, wake: Callable[[], None]) -> bool:
        """Calls `wake` from now on when something may have changed about `name`; whether it is told just now.

        Repeated it does no harm.
        """
        with self._lock:
            self._waiting.add((name, wake))
            if self._thread is None:
                thread = threading.Thread(target=self._follow, name=f"watch {self._namespace}", daemon=True)
                thread.start()  # which looks for itself under the lock, and so after the next line
                self._thread = thread
            return self._is_live

    def leave(self, name: str, wake: Callable[[], None]) -> None:
        with self._lock:
            self._waiting.discard((name, wake))

    def _follow(self) -> None:
        shortest, longest = PAUSES
        pause = shortest
        while self._is_wanted():
            begun = time.monotonic()
            with suppress(Exception):  # whatever is wrong with it: they look by themselves meanwhile
                for name in self._stream():
                    self._tell(name)
            self._break_off()
            if time.monotonic() - begun > longest:
                pause = shortest
            time.sleep(pause)
            pause = min(pause * 2, longest)

    def _is_wanted(self) -> bool:
        with self._lock:
            if not self._waiting:
                self._thread = None
            return self._thread is not None

    def _tell(self, name: str) -> None:
        with self._lock:
            self._is_live = True
            woken = [wake for of, wake in self._waiting if of == name]
        for wake in woken:
            wake()

    def _break_off(self) -> None:
        """They are woken to hear that they are on their own."""
        with self._lock:
            self._is_live = False
            woken = [wake for _, wake in self._waiting]
        for wake in woken:
            wake()

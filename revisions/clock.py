"""Time enters here and nowhere else: read once per pass, then handed down as `now` (aware UTC)."""

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol


class Clock(Protocol):
    """`now` asks the database's clock where it has one, so that every replica sees one time; `monotonic` is seconds."""

    def now(self, connection: Any, /) -> datetime: ...

    def monotonic(self) -> float: ...


class HostClock:
    """This machine's clock: right where one machine is all there is (SQLite)."""

    def now(self, connection: Any, /) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class HandClock:
    """A clock that moves only when told: `advance` moves time, `step` moves the wall clock alone."""

    def __init__(self, now: datetime) -> None:
        self._now = now.astimezone(UTC)
        self._monotonic = 0.0
        self._lock = threading.Lock()

    def now(self, connection: Any = None, /) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, by: timedelta) -> None:
        with self._lock:
            self._now += by
            self._monotonic += by.total_seconds()

    def step(self, by: timedelta) -> None:
        with self._lock:
            self._now += by

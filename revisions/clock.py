"""The only source of time: `now` is read once per pass and handed down (aware UTC)."""

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol


class Clock(Protocol):
    """Clock of an installation. `now` asks the database where it has a clock; `monotonic` is in seconds."""

    def now(self, connection: Any, /) -> datetime: ...

    def monotonic(self) -> float: ...


class HostClock:
    """This machine's clock, for SQLite, where one machine is the whole installation."""

    def now(self, connection: Any, /) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class HandClock:
    """Clock for tests: `advance` moves both times, `step` moves `now` alone."""

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

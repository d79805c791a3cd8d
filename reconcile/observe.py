"""Named observations: code says what happened, metrics, traces and logs subscribe."""

from collections.abc import Callable
from typing import Any, Protocol

Progress = Callable[[int, int], None]
"""Told now and then by what takes long: how many of how many are done."""


class Subscriber(Protocol):
    """Called in the emitting thread; must be quick and must not raise."""

    def __call__(self, name: str, facts: dict[str, Any], /) -> None: ...


class Observations:
    """Where observations are emitted and who hears them."""

    def __init__(self) -> None:
        self._subscribers: tuple[Subscriber, ...] = ()

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Adds a subscriber; the answer removes it again."""
        self._subscribers = (*self._subscribers, subscriber)

        def unsubscribe() -> None:
            self._subscribers = tuple(other for other in self._subscribers if other is not subscriber)

        return unsubscribe

    def emit(self, name: str, **facts: Any) -> None:
        """Tells every subscriber that `name` (`run.created`, `pass.failed`) happened, with its facts."""
        for subscriber in self._subscribers:
            subscriber(name, facts)

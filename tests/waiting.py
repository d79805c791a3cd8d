"""Waiting for an observation instead of a fixed time."""

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 300.0
"""Seconds after which a test gives up waiting.

Far more than a loaded machine needs. A passing test never waits that long, so no wait needs a limit of its own.
"""

Observation = TypeVar("Observation")


def eventually(look: Callable[[], Observation | None], *, every: float = 0.002) -> Observation:
    """Call `look` until it returns a true value, and return that value. Fail after PATIENCE seconds.

    `every` is the pause between two calls in seconds; it can be longer for a call that is expensive.
    """
    deadline = time.monotonic() + PATIENCE
    while not (observation := look()):
        assert time.monotonic() < deadline, f"no true value within {PATIENCE} s"
        time.sleep(every)
    return observation

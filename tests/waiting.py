"""Waiting for an observation, never for a time."""

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 300.0
"""Seconds until something that was waited for is taken for lost, whatever it is: far more than a machine needs on which
many tests share few cores. Where all goes well nobody waits for it, so a wait has no number of its own."""

Seen = TypeVar("Seen")


def eventually(look: Callable[[], Seen | None], *, every: float = 0.002) -> Seen:
    """The first thing worth the name that `look` answers; fails when there is none within PATIENCE.

    It looks again `every` so many seconds, which spares a look that costs something.
    """
    deadline = time.monotonic() + PATIENCE
    while not (seen := look()):
        assert time.monotonic() < deadline, f"nothing seen within {PATIENCE} s"
        time.sleep(every)
    return seen

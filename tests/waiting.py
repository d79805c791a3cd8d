"""Waiting for an observation, never for a time."""

import time
from collections.abc import Callable
from typing import TypeVar

Seen = TypeVar("Seen")


def eventually(look: Callable[[], Seen | None], seconds: float = 10.0, *, every: float = 0.002) -> Seen:
    """The first thing worth the name that `look` answers; fails when there is none within `seconds`.

    It looks again `every` so many seconds, which spares a look that costs something.
    """
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < deadline, f"nothing seen within {seconds} s"
        time.sleep(every)
    return seen

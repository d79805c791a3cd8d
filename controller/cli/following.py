"""A run's log as it grows, to the end of the run (X-17)."""

import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from controller.cli import screen
from revisions.outcomes import RunStatus

if TYPE_CHECKING:
    from controller.cli.client import Client

LOOK_SECONDS = 0.5
LIVE = (RunStatus.PENDING, RunStatus.RUNNING, RunStatus.WAITING, RunStatus.PARKED)


def follow(client: "Client", path: str, attempt: int | None) -> None:
    """Writes what is stored from time to time, of this attempt alone or of the newest and those after it.

    Ends with the attempt or the run, quietly at Ctrl-C and where nobody reads any more.
    """
    with suppress(KeyboardInterrupt, BrokenPipeError):
        alone, number, position = attempt is not None, attempt, 0
        while True:
            answer = client.request("GET", path, params={"attempt": number or None, "position": position})
            told = answer.headers
            if int(told["Triggerctl-Position"]) < position:  # the attempt was given back and began anew
                position = 0
                continue
            sys.stdout.buffer.write(answer.content)
            sys.stdout.buffer.flush()
            number, position = int(told["Triggerctl-Attempt"]), int(told["Triggerctl-Position"])
            newest, goes_on = int(told["Triggerctl-Newest-Attempt"]), told["Triggerctl-Status"] in LIVE
            if number < newest and not alone:
                number, position = number + 1, 0
                screen.note(f"attempt {number}")
            elif number < newest or not goes_on:
                return
            else:
                time.sleep(LOOK_SECONDS)

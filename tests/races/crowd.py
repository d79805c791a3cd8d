"""Many threads at once, and what they ran into."""

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from revisions.errors import TriggerctlError

Answer = TypeVar("Answer")


def at_once(calls: Sequence[Callable[[], Answer]]) -> list[Answer | TriggerctlError]:
    """Calls all of them at the same moment, each in a thread; answers what each answered or was refused with.

    Raises whatever else any of them raised.
    """
    barrier = threading.Barrier(len(calls))
    answers: list[Answer | TriggerctlError] = []
    surprises: list[BaseException] = []

    def run(call: Callable[[], Answer]) -> None:
        barrier.wait()
        try:
            answers.append(call())
        except TriggerctlError as error:
            answers.append(error)
        except BaseException as error:  # noqa: BLE001  # raised again below, where the test sees it
            surprises.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if surprises:
        raise BaseExceptionGroup("surprises", surprises)
    return answers

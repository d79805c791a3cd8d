"""Calls in many threads that start at the same moment."""

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from revisions.errors import TriggerctlError

Answer = TypeVar("Answer")


def at_once(calls: Sequence[Callable[[], Answer]]) -> list[Answer | TriggerctlError]:
    """Start all calls at the same moment, each in a thread, and return their results or TriggerctlErrors.

    Raise any other exceptions together in a BaseExceptionGroup.
    """
    barrier = threading.Barrier(len(calls))
    answers: list[Answer | TriggerctlError] = []
    unexpected: list[BaseException] = []

    def run(call: Callable[[], Answer]) -> None:
        barrier.wait()
        try:
            answers.append(call())
        except TriggerctlError as error:
            answers.append(error)
        except BaseException as error:  # noqa: BLE001  # raised below, in the test's own thread
            unexpected.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if unexpected:
        raise BaseExceptionGroup("unexpected exceptions", unexpected)
    return answers

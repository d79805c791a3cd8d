"""Whether the systems that tasks are handed to answer: all are asked at once, and none is waited for long (O-05)."""

import threading
from collections.abc import Mapping
from time import monotonic

from reconcile.ports import System

SECONDS = 8.0
"""For all together, whatever their libraries would wait."""
MOST = 50
"""Systems that are asked; each takes a thread meanwhile."""


def troubles(systems: Mapping[System, str]) -> list[tuple[str, str]]:
    """(kind, what is wrong) of each that does not answer as it should; `systems` are the kinds of launchers by them."""
    asked = [_Question(system, kind) for system, kind in systems.items()]
    end = monotonic() + SECONDS
    for question in asked:
        question.join(max(0.0, end - monotonic()))
    return [(question.kind, wrong) for question in asked if (wrong := question.wrong)]


class _Question(threading.Thread):
    """One system, asked from now on; `wrong` is empty once it answered well."""

    def __init__(self, system: System, kind: str) -> None:
        super().__init__(name=f"doctor {kind}", daemon=True)
        self._system = system
        self.kind = kind
        self.wrong = f"did not answer within {SECONDS:g} s"
        self.start()

    def run(self) -> None:
        try:
            self._system.reach()
        except Exception as error:  # noqa: BLE001 - whatever a plug-in raises is what is wrong
            self.wrong = str(error) or repr(error)
        else:
            self.wrong = ""

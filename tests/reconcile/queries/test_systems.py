"""Systems that tasks are handed to, asked by `doctor`."""

import threading

import pytest

from reconcile import plugins
from reconcile.queries import doctor
from tests.waiting import PATIENCE


class System:
    """Answers, or raises what it was given, or does not come back."""

    def __init__(self, error: Exception | None = None, until: threading.Event | None = None) -> None:
        self._error, self._until = error, until

    def reach(self) -> None:
        if self._until:
            self._until.wait(PATIENCE)
        if self._error:
            raise self._error


def test_what_does_not_answer_is_told_and_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """O-05: all at once, each with its own words; what is silent is not waited for."""
    moments = iter((0.0, 0.0, 0.0, 0.0, doctor.SYSTEM_TIMEOUT_SECONDS, doctor.SYSTEM_TIMEOUT_SECONDS))
    monkeypatch.setattr(doctor, "monotonic", lambda: next(moments))  # the time is up when the silent are waited for
    over = threading.Event()
    asked: dict[plugins.System, str] = {
        System(): "well",
        System(ValueError("it is closed")): "closed",
        System(KeyError()): "odd",
        System(until=over): "silent",
        System(until=over): "silent too",
    }
    try:
        found = doctor.troubles(asked)
    finally:
        over.set()
    assert found == [
        ("closed", "it is closed"),
        ("odd", "KeyError()"),
        ("silent", "did not answer within 8 s"),
        ("silent too", "did not answer within 8 s"),
    ]

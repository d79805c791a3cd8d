"""Pauses of a watch between two streams."""

from collections.abc import Iterator

import pytest

from reconcile.launchers.shared import kubernetes_cluster
from reconcile.launchers.shared.kubernetes_cluster import JobWatch
from tests.waiting import eventually


class StreamTime:
    """Stands for the module `time`: a stream lasts `lasting` seconds, and `sleep` only records the pauses."""

    def __init__(self, lasting: float) -> None:
        self._lasting = lasting
        self._now = 0.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def stream(self) -> Iterator[str]:
        yield "a"
        self._now += self._lasting


@pytest.mark.parametrize(("lasting", "pauses"), [(0.1, [1, 2, 4, 8, 16, 30, 30]), (300, [1, 1, 1, 1, 1, 1, 1])])
def test_the_pause_doubles_after_short_streams(
    monkeypatch: pytest.MonkeyPatch, lasting: float, pauses: list[float]
) -> None:
    """X-10: each new stream lists all Jobs and wakes all attempts, so short streams would load the cluster."""
    time = StreamTime(lasting)
    monkeypatch.setattr(kubernetes_cluster, "time", time)
    watch = JobWatch("here", time.stream)

    def wake() -> None:
        if len(time.pauses) == len(pauses) - 1:
            watch.leave("a", wake)

    watch.join("a", wake)
    eventually(lambda: len(time.pauses) == len(pauses))
    assert time.pauses == pauses

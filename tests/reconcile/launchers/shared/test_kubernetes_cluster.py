"""What a watch does between two streams."""

from collections.abc import Iterator

import pytest

from reconcile.launchers.shared import kubernetes_cluster
from reconcile.launchers.shared.kubernetes_cluster import JobWatch
from tests.waiting import eventually


class Time:
    """In which a stream lasts for `lasting` seconds, and pauses are only written down."""

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
def test_streams_that_end_at_once_come_ever_more_slowly(
    monkeypatch: pytest.MonkeyPatch, lasting: float, pauses: list[float]
) -> None:
    """X-10: each asks the cluster for all Jobs and wakes all attempts, whatever it tells before it breaks off."""
    time = Time(lasting)
    monkeypatch.setattr(kubernetes_cluster, "time", time)
    told = JobWatch("here", time.stream)

    def wake() -> None:
        if len(time.pauses) == len(pauses) - 1:
            told.leave("a", wake)

    told.join("a", wake)
    eventually(lambda: len(time.pauses) == len(pauses))
    assert time.pauses == pauses

"""What probes are told of a process whose parts do not do what they should (O-05)."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from controller.services import Condition
from reconcile.decide.job_changes import JobChanges
from reconcile.loop import loop as loops
from reconcile.observations.passes import LoopResynced
from revisions.clock import HandClock
from revisions.errors import Unavailable
from revisions.store.database import Database
from tests.controller.test_serve import RunningProcess
from tests.waiting import eventually


@pytest.fixture
def up(database_url: str, tmp_path: Path) -> Iterator[RunningProcess]:
    with Database(database_url) as database:
        process = RunningProcess(database, tmp_path / "work")
        yield process
        process.stop()


def probes(up: RunningProcess) -> tuple[int, int]:
    return up.client.get("/healthz").status_code, up.client.get("/readyz").status_code


@pytest.fixture
def a_loop_that_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops.Loop, "_run", lambda loop: None)


@pytest.mark.usefixtures("a_loop_that_ends")
def test_a_loop_that_has_ended(up: RunningProcess) -> None:
    """O-05, L-16: nothing fires any more, so it is neither alive nor ready, and says why."""
    eventually(lambda: probes(up) == (503, 503))
    assert "has ended by itself: loop" in up.client.get("/healthz").json()["detail"]


def test_a_schema_that_is_too_old(up: RunningProcess) -> None:
    """O-05, R-19: it lives, and is not ready."""
    with up.database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    assert probes(up) == (200, 503)
    assert "db upgrade" in up.client.get("/readyz").json()["detail"]


def test_a_loop_that_does_not_look(clock: HandClock) -> None:
    """O-05: not ready once three intervals, and a minute, have gone by without a resync; the next one mends it."""
    condition = Condition(clock.monotonic, timedelta(seconds=30))
    condition.begin({"loop": lambda: True})
    condition.check_ready()
    clock.advance(timedelta(seconds=90))
    condition.check_ready()
    clock.advance(timedelta(seconds=1))
    with pytest.raises(Unavailable, match="has not looked at the database for 91 s"):
        condition.check_ready()
    condition.check_alive()
    condition.note_resync(LoopResynced(JobChanges((), (), ()), jobs=0, seconds=0.1))
    condition.check_ready()


def test_without_a_loop_nobody_waits_for_one(clock: HandClock) -> None:
    """O-05: of an API alone, or with `enabled: false`."""
    condition = Condition(clock.monotonic, timedelta(seconds=30))
    condition.begin({"runner": lambda: True})
    clock.advance(timedelta(days=1))
    condition.check_ready()


def test_parts_that_end_because_they_were_told_to(clock: HandClock) -> None:
    """O-05: while it stops it is alive and not ready."""
    condition = Condition(clock.monotonic, timedelta(seconds=30))
    condition.begin({"loop": lambda: False})
    condition.leave()
    condition.check_alive()
    with pytest.raises(Unavailable, match="stopping"):
        condition.check_ready()


def test_a_stopped_process_ends(up: RunningProcess) -> None:
    """O-05: the route that says so is there until the last."""
    up.process.stop()
    eventually(lambda: probes(up) == (200, 503))

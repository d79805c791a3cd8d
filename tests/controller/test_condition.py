"""Liveness and readiness of a process whose parts have failed, hang or stop (O-05)."""

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
def running(database_url: str, tmp_path: Path) -> Iterator[RunningProcess]:
    with Database(database_url) as database:
        process = RunningProcess(database, tmp_path / "work")
        yield process
        process.stop()


def probe(running: RunningProcess) -> tuple[int, int]:
    return running.client.get("/healthz").status_code, running.client.get("/readyz").status_code


@pytest.fixture
def loop_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops.Loop, "_run", lambda loop: None)


@pytest.mark.usefixtures("loop_ends_at_once")
def test_a_process_whose_loop_has_ended_is_not_alive(running: RunningProcess) -> None:
    """O-05, L-16: neither alive nor ready, because nothing fires any more; the answer names the loop."""
    eventually(lambda: probe(running) == (503, 503))
    assert "has ended by itself: loop" in running.client.get("/healthz").json()["detail"]


def test_a_process_over_an_old_schema_is_not_ready(running: RunningProcess) -> None:
    """O-05, R-19: but it is alive."""
    with running.database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    assert probe(running) == (200, 503)
    assert "db upgrade" in running.client.get("/readyz").json()["detail"]


def test_a_process_whose_loop_hangs_is_not_ready(clock: HandClock) -> None:
    """O-05: after three resync intervals, and at least a minute, without a resync; ready again with the next one."""
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


def test_a_process_without_a_loop_needs_no_resync(clock: HandClock) -> None:
    """O-05: with the API alone, or with `enabled: false`."""
    condition = Condition(clock.monotonic, timedelta(seconds=30))
    condition.begin({"runner": lambda: True})
    clock.advance(timedelta(days=1))
    condition.check_ready()


def test_a_stopping_process_is_alive_and_not_ready(clock: HandClock) -> None:
    """O-05: its parts may end."""
    condition = Condition(clock.monotonic, timedelta(seconds=30))
    condition.begin({"loop": lambda: False})
    condition.leave()
    condition.check_alive()
    with pytest.raises(Unavailable, match="stopping"):
        condition.check_ready()


def test_probes_are_answered_until_the_server_stops(running: RunningProcess) -> None:
    """O-05: after the other parts have stopped."""
    running.process.stop()
    eventually(lambda: probe(running) == (200, 503))

"""Three replicas, a hundred occurrences a second or more, and random disturbances for twenty seconds or more.

`make chaos` runs for three minutes with two hundred occurrences a second. CHAOS_SECONDS changes the duration, and
CHAOS_SEED repeats a run.
"""

import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import psycopg
import pytest

from controller.errors import Exit
from revisions.errors import Unavailable
from revisions.store import schema
from revisions.store.database import Database
from tests.crash.site import Controller, Site
from tests.server import Server
from tests.waiting import eventually

SECONDS = float(os.environ.get("CHAOS_SECONDS", "20"))
TRIGGERS, REPLICAS = 200 if SECONDS > 60 else 100, 3
SETTINGS = {
    "RESYNC_INTERVAL": "2s",
    "LIVE_GRACE": "4s",
    "MAX_CATCHUP_RUNS_PER_LOOP": "100000",
    "EXECUTION_QPS": "2000",
    "EXECUTION_BURST": "4000",
    "MAX_RUNNING": "2",
    "LEASE_SECONDS": "15",
}
SPEC = {"schedule": {"every": "1s"}, "catchup": {"policy": "all"}, "overlap": "allow"}


@pytest.fixture
def server() -> Iterator[Server]:
    """PostgreSQL server of this test alone, which may be restarted."""
    server = Server()
    yield server
    server.stop()


class Chaos:
    """Random disturbances. Each is over when its method returns, except for what the replicas still have to repair."""

    def __init__(self, site: Site, server: Server, chance: random.Random) -> None:
        self.site, self.server, self.chance = site, server, chance
        self.names = [f"tick-{number}" for number in range(TRIGGERS)]
        self.replicas: list[Controller] = []
        self.disturbances: list[str] = []
        self._kinds: list[Callable[[], None]] = [
            self.kill, self.freeze, self.restart, self.cut_listeners, self.deploy, self.deploy, self.pause, self.pause,
        ]  # fmt: skip
        self._upcoming: list[Callable[[], None]] = []

    def begin(self) -> None:
        self.site.register("true")
        for name in self.names:
            self.site.deploy(name, **SPEC)
        self.replicas = [self._start_replica(number) for number in range(REPLICAS)]
        for replica in self.replicas:
            replica.wait_for("controller.started")

    @property
    def every_kind_happened(self) -> bool:
        return {kind.__name__ for kind in self._kinds} <= set(self.disturbances)

    def disturb(self) -> None:
        """Cause the next disturbance. All kinds happen in random order before one happens again."""
        if not self._upcoming:
            self._upcoming = self.chance.sample(self._kinds, len(self._kinds))
        self._restart_failed_starts()
        disturbance = self._upcoming.pop()
        self.disturbances.append(disturbance.__name__)
        disturbance()

    def kill(self) -> None:
        """Kill a replica with SIGKILL and start another in its place."""
        number = self.chance.randrange(REPLICAS)
        self.replicas[number].kill()
        self.replicas[number] = self._start_replica(number)

    def freeze(self) -> None:
        """Stop a replica with SIGSTOP, possibly for longer than any session timeout, and continue it later."""
        seconds = self.chance.uniform(1, 12 if SECONDS > 60 else 6)
        threading.Thread(target=self.chance.choice(self.replicas).freeze, args=(seconds,), daemon=True).start()

    def restart(self) -> None:
        self.server.restart(self.chance.choice(["fast", "immediate"]))

    def cut_listeners(self) -> None:
        """End every connection that listens for notifications."""
        with suppress(psycopg.OperationalError), psycopg.connect(self.server.url, autocommit=True) as connection:
            terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
            connection.execute(terminate)

    def deploy(self) -> None:
        """Deploy a revision with the same schedule."""
        self._retry_while_unavailable(
            lambda: self.site.redeploy(self._random_name(), **SPEC, description=f"{self.chance.random()}")
        )

    def pause(self) -> None:
        """Deactivate a trigger and activate it again a moment later."""
        name = self._random_name()
        self._retry_while_unavailable(lambda: self.site.deactivate(name))
        time.sleep(self.chance.uniform(0, 2))
        self._retry_while_unavailable(lambda: self.site.activate(name))

    def stop(self) -> None:
        """Wait until everything due is decided, and stop the replicas."""
        self.site.stop_schedules(*self.names)
        self._restart_failed_starts()
        for replica in self.replicas:
            assert replica.stop() == 0

    def _random_name(self) -> str:
        return self.chance.choice(self.names)

    def _restart_failed_starts(self) -> None:
        """Start a replica again that found no database when it started, as a supervisor does."""
        for number, replica in enumerate(self.replicas):
            if replica.process.poll() == Exit.NOT_REACHABLE and not replica.events("controller.started"):
                self.replicas[number] = self._start_replica(number)

    def _start_replica(self, number: int) -> Controller:
        """Start a replica; only number 0 runs tasks, because there is no room for so many runs."""
        return self.site.up(without="api,web" if number == 0 else "api,web,runner", **SETTINGS)

    def _retry_while_unavailable(self, change: Callable[[], None]) -> None:
        """Repeat a change until the database is available."""

        def attempt() -> bool:
            try:
                change()
            except Unavailable:
                return False
            return True

        eventually(attempt)


@pytest.mark.xdist_group("chaos")
def test_nothing_is_lost_doubled_or_unexplained(site_over: Callable[[str], Site], server: Server) -> None:
    """L-11, L-14, L-15, O-08, U-07: the audit stays clean under kills, stops, restarts, cut listeners and changes."""
    with Database(server.url) as database:
        schema.upgrade(database)
    seed = int(os.environ.get("CHAOS_SEED") or random.randrange(2**32))
    logging.getLogger(__name__).warning("CHAOS_SEED=%d repeats these disturbances", seed)
    chaos = Chaos(site_over(server.url), server, random.Random(seed))
    chaos.begin()
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends or not chaos.every_kind_happened:
        chaos.disturb()
        time.sleep(chaos.chance.uniform(0.5, 2))
    chaos.stop()
    faults = {name: lines for name in chaos.names if (lines := chaos.site.audit_faults(name))}
    assert faults == {}, chaos.disturbances
    runs = chaos.site.runs()
    assert len({(run.trigger_id, run.occurrence_id) for run in runs}) == len(runs)
    assert len(runs) > TRIGGERS * SECONDS * 0.8, chaos.disturbances
    assert server.log is not None
    assert "deadlock detected" not in server.log.read_text()
    assert not [line for controller in chaos.site.controllers for line in controller.events("trigger.quarantined")]

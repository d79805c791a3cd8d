"""Three replicas, two hundred triggers a second, and everything that can go wrong, for half a minute or more.

`make chaos` takes three minutes; CHAOS_SECONDS and CHAOS_SEED say otherwise.
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

SECONDS = float(os.environ.get("CHAOS_SECONDS", "30"))
TRIGGERS, REPLICAS = 200, 3
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
    """A server that may be restarted, for nobody else uses it."""
    server = Server()
    yield server
    server.stop()


class Chaos:
    """What may happen; each disturbance is over when its method returns, but for what the replicas make of it."""

    def __init__(self, site: Site, server: Server, chance: random.Random) -> None:
        self.site, self.server, self.chance = site, server, chance
        self.names = [f"tick-{number}" for number in range(TRIGGERS)]
        self.replicas: list[Controller] = []
        self.happened: list[str] = []

    def begin(self) -> None:
        self.site.register("true")
        for name in self.names:
            self.site.deploy(name, **SPEC)
        self.replicas = [self._replica(number) for number in range(REPLICAS)]
        for replica in self.replicas:
            replica.until("controller.started")

    def disturb(self) -> None:
        disturbances: list[Callable[[], None]] = [
            self.kill, self.freeze, self.restart, self.deafen, self.deploy, self.deploy, self.pause, self.pause,
        ]  # fmt: skip
        self._look_after()
        disturbance = self.chance.choice(disturbances)
        self.happened.append(disturbance.__name__)
        disturbance()

    def kill(self) -> None:
        """SIGKILL, and another comes in its place."""
        number = self.chance.randrange(REPLICAS)
        self.replicas[number].kill()
        self.replicas[number] = self._replica(number)

    def freeze(self) -> None:
        """SIGSTOP for up to longer than any session's timeout, SIGCONT after it."""
        seconds = self.chance.uniform(1, 12 if SECONDS > 60 else 6)
        threading.Thread(target=self.chance.choice(self.replicas).freeze, args=(seconds,), daemon=True).start()

    def restart(self) -> None:
        self.server.restart(self.chance.choice(["fast", "immediate"]))

    def deafen(self) -> None:
        """Cuts every listener's connection."""
        with suppress(psycopg.OperationalError), psycopg.connect(self.server.url, autocommit=True) as connection:
            listening = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
            connection.execute(listening)

    def deploy(self) -> None:
        """One revision more, which leaves the schedule alone."""
        self._patiently(lambda: self.site.redeploy(self._one(), **SPEC, description=f"{self.chance.random()}"))

    def pause(self) -> None:
        """Pauses a trigger, and resumes it a moment later."""
        name = self._one()
        self._patiently(lambda: self.site.deactivate(name))
        time.sleep(self.chance.uniform(0, 2))
        self._patiently(lambda: self.site.activate(name))

    def end(self) -> None:
        """Until all that was due is decided."""
        self.site.comes_to_rest(*self.names)
        self._look_after()
        for replica in self.replicas:
            assert replica.stop() == 0

    def _one(self) -> str:
        return self.chance.choice(self.names)

    def _look_after(self) -> None:
        """As whoever supervises a replica does: one that found no database when it was to begin is started again."""
        for number, replica in enumerate(self.replicas):
            if replica.process.poll() == Exit.NOT_REACHABLE and not replica.said("controller.started"):
                self.replicas[number] = self._replica(number)

    def _replica(self, number: int) -> Controller:
        """One of them runs tasks, too; for as many runs as these there would be no room."""
        return self.site.up(without="api,web" if number == 0 else "api,web,runner", **SETTINGS)

    def _patiently(self, change: Callable[[], None]) -> None:
        """A person who tries again while the database is gone."""

        def attempt() -> bool:
            try:
                change()
            except Unavailable:
                return False
            return True

        eventually(attempt)


@pytest.mark.xdist_group("chaos")
def test_nothing_is_lost_doubled_or_unexplained(site_over: Callable[[str], Site], server: Server) -> None:
    """L-11, L-14, L-15, O-08, U-07: kills, stops, restarts, cut listeners, deploys and pauses; the audit is clean."""
    with Database(server.url) as database:
        schema.upgrade(database)
    seed = int(os.environ.get("CHAOS_SEED") or random.randrange(2**32))
    logging.getLogger(__name__).warning("CHAOS_SEED=%d brings the same disturbances again", seed)
    chaos = Chaos(site_over(server.url), server, random.Random(seed))
    chaos.begin()
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends:
        chaos.disturb()
        time.sleep(chaos.chance.uniform(1, 3))
    chaos.end()
    faults = {name: found for name in chaos.names if (found := chaos.site.faults(name))}
    assert faults == {}, chaos.happened
    runs = chaos.site.runs()
    assert len({(run.trigger_id, run.occurrence_id) for run in runs}) == len(runs)
    assert len(runs) > TRIGGERS * SECONDS * 0.8, chaos.happened
    assert server.log is not None
    assert "deadlock detected" not in server.log.read_text()
    assert not [line for one in chaos.site.controllers for line in one.said("trigger.quarantined")]

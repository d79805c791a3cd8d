"""Time and memory of a start with 100,000 active triggers, against adding as many jobs to APScheduler alone.

Each is measured in a process of its own, so that memory of one is not counted for the other.
"""

import multiprocessing
import os
import resource
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from apscheduler.schedulers.background import BackgroundScheduler

from benchmarks.crowd import QUIET, gather, loop_over
from benchmarks.ratio import Ratio
from benchmarks.server import fresh_database
from revisions.store.database import Database

TRIGGERS = 100_000
MB = 1_000_000


def measure() -> list[Ratio]:
    """Return triggers per second at the start, and triggers per megabyte that they occupy afterwards."""
    with fresh_database() as database, multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        gather(database, TRIGGERS, **QUIET)
        url = database.url.render_as_string(hide_password=False)
        our_seconds, our_bytes = pool.apply(_ours, (url,))
        bare_seconds, bare_bytes = pool.apply(_bare)
    return [
        Ratio(f"start with {TRIGGERS:,} triggers", TRIGGERS / our_seconds, TRIGGERS / bare_seconds, goal=1 / 4),
        Ratio("triggers per MB of memory", TRIGGERS / our_bytes * MB, TRIGGERS / bare_bytes * MB, goal=1 / 3),
    ]


def _ours(url: str) -> tuple[float, int]:
    with Database(url) as database:
        loop = loop_over(database)
        loop.timers.start()
        before, began = _resident(), time.monotonic()
        loop.resync()
        seconds = time.monotonic() - began
        assert len(loop.timers.jobs()) == TRIGGERS
        occupied = _resident() - before
        loop.timers.stop()
    return seconds, occupied


def _bare() -> tuple[float, int]:
    scheduler = BackgroundScheduler(timezone=UTC)
    scheduler.start()
    before, began = _resident(), time.monotonic()
    at = datetime.now(UTC) + timedelta(days=1)
    for number in range(TRIGGERS):
        scheduler.add_job(_nothing, "interval", minutes=1, id=f"{number:026}", next_run_time=at)
    seconds = time.monotonic() - began
    occupied = _resident() - before
    scheduler.shutdown(wait=False)
    return seconds, occupied


def _nothing() -> None:
    return None


def _resident() -> int:
    """Return the resident memory of this process, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() if os.name == "posix" else 0

"""Resync with ten changes among 100,000 active triggers, against ten among 1,000: its cost follows the changes."""

import time

from benchmarks.crowd import QUIET, gather, loop_over
from benchmarks.ratio import Ratio
from benchmarks.server import fresh_database
from benchmarks.subjects import trigger
from reconcile.decide.authority import Caller
from reconcile.decide.preconditions import Expected
from reconcile.loop.surveys import PART
from reconcile.observations.observation import Observations
from reconcile.triggers.deploy import deploy_trigger

CHANGES = 10
ROUNDS = 15
FEW, MANY = 1_000, 100_000


def measure() -> list[Ratio]:
    """Return the median rate of fifteen resyncs; the goal is at most one and a half times the duration."""
    few, many = _rate(FEW), _rate(MANY)
    return [Ratio(f"resync with {CHANGES} changes among {MANY:,}, against {FEW:,}", many, few, goal=1 / 1.5)]


def _rate(number: int) -> float:
    with fresh_database() as database:
        gather(database, number, **QUIET)
        loop = loop_over(database)
        loop.timers.start()
        for _ in range(1 + number // PART):  # each computes a part of their demand
            loop.resync()
        seconds = []
        for round in range(ROUNDS):
            for name in range(CHANGES):
                changed = trigger(f"t{name}", **QUIET, description=f"{round}")
                deploy_trigger(database, Observations(), changed, Expected(revision=round + 1), Caller("bench"))
            began = time.monotonic()
            changes = loop.resync()
            seconds.append(time.monotonic() - began)
            assert len(changes.replaced) == CHANGES, changes
        loop.timers.stop()
    return 1 / sorted(seconds)[ROUNDS // 2]

"""Planning a catch-up of a year of minutes against one of an hour, and finding the next fire against croniter."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from croniter import croniter

from benchmarks.ratio import Ratio
from reconcile.decide import catchup
from reconcile.decide.catchup import Situation
from reconcile.decide.terms import terms
from reconcile.schedule.fires import fires, parse
from revisions.history.chain import canonical
from revisions.spec import reading
from revisions.spec.trigger import ScheduleSpec

NOW = datetime(2026, 6, 1, 12, 0, 30, tzinfo=UTC)
CAP = 100
ROUNDS, CALLS = 7, 300
EXPRESSIONS = ("* * * * *", "*/5 * * * *", "0 8 * * 1-5", "30 2 1 * *", "0 0 29 2 *", "15 10 L * *")


def measure() -> list[Ratio]:
    """Return occurrences planned and fires found per second, as medians of seven rounds that alternate.

    Of a year only as many occurrences are started as the cap allows, of an hour all 60; a rate counts the started ones.
    """
    year, hour = timedelta(days=365), timedelta(hours=1)
    ratios = [_compare("a year of missed minutes planned, against an hour", _plan(year), _plan(hour), 1 / 1.2)]
    for expression in EXPRESSIONS:
        name = f"next fire of {expression!r}, against croniter"
        ratios.append(_compare(name, _fire(expression), _croniter(expression), 1.0))
    return ratios


def _plan(missed: timedelta) -> Callable[[int], int]:
    """Return a function that plans a catch-up and the first part of its backlog, and returns the number of starts."""
    spec = {"task_version": "v1", "schedule": {"cron": "* * * * *"}, "catchup": {"policy": "all"}}
    trigger_terms, situation = terms(canonical(spec), "{}"), Situation(NOW, timedelta(minutes=1))

    def plan(call: int) -> int:
        made = catchup.plan(trigger_terms, NOW - missed, situation)
        assert made.backlog is not None
        return len(made.starts) + len(catchup.drain(trigger_terms, *made.backlog, CAP, situation).starts)

    return plan


def _fire(expression: str) -> Callable[[int], int]:
    schedule = parse(reading.typed(ScheduleSpec, {"cron": expression}))
    return lambda call: len(fires(schedule, NOW + timedelta(hours=7, seconds=1) * call, None, 1))


def _croniter(expression: str) -> Callable[[int], int]:
    return lambda call: croniter(expression, NOW + timedelta(hours=7, seconds=1) * call).get_next(datetime) is not None


def _compare(name: str, ours: Callable[[int], int], bare: Callable[[int], int], goal: float) -> Ratio:
    """Compare the medians; every call has another argument, because ours caches what it finds."""
    rounds = [(_rate(ours, round), _rate(bare, round)) for round in range(ROUNDS)]
    middle = ROUNDS // 2
    return Ratio(name, sorted(r[0] for r in rounds)[middle], sorted(r[1] for r in rounds)[middle], goal)


def _rate(do: Callable[[int], int], round: int) -> float:
    began = time.perf_counter()
    done = sum(do(call) for call in range(round * CALLS, (round + 1) * CALLS))
    return done / (time.perf_counter() - began)

"""What a trigger's stored spec means for deciding, worked out once per text and kept."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from reconcile.decide.budget import Budget, budget_of
from reconcile.schedule import bounds
from reconcile.schedule.definition import Closed, Schedule, parse
from reconcile.schedule.notation import duration, instant
from revisions.history.chain import canonical
from revisions.manifests import TriggerSpec


@dataclass(frozen=True, slots=True)
class Terms:
    """A spec with its defaults filled in; they never change within an apiVersion (R-10).

    `count` is how many occurrences may start since the baseline (S-07), `spread` the window within which the trigger
    has its place (S-12). `start_within` is how long a run may wait for its start (X-18). `expires_at` is there only
    where it is what ends the schedule (X-08). `max_runs` is how many may succeed. `scopes` is what it may do at all
    (X-15).
    """

    schedule: Schedule
    count: int | None
    spread: timedelta
    policy: str
    window: timedelta | None
    overlap: str
    max_attempts: int
    start_within: timedelta | None
    deactivate_after: int
    input: str
    budget: Budget | None
    expires_at: datetime | None
    max_runs: int | None
    requires_approval: bool
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TaskTerms:
    """What a task version means for deciding: how many of its runs may run at once, the inputs it declares, None where
    it declares none and takes any, and whether its runs wait for somebody's word (X-14)."""

    limit: int | None = None
    inputs: frozenset[str] | None = None
    requires_approval: bool = False


@lru_cache(maxsize=200_000)
def terms(spec: str, resolved: str, calendars: Closed = ()) -> Terms:
    """The terms of a canonical spec text; `calendars` are the days of those it names, see `calendars_of`.

    Raises ValueError for one this release cannot read (L-13).
    """
    read = TriggerSpec.model_validate_json(spec)
    written = json.loads(spec)
    block, expires_at = written["schedule"], bounds.expires_at(written)
    return Terms(
        schedule=schedule_of(written, resolved, calendars),
        count=bounds.count(block),
        spread=bounds.spread(block),
        policy=read.catchup.policy,
        window=duration(read.catchup.window) if read.catchup.window else None,
        overlap=read.overlap or ("queue_all" if read.catchup.policy == "all" else "skip"),
        max_attempts=read.retry.max_attempts,
        start_within=bounds.start_within(read.start_within),
        deactivate_after=read.deactivate_after,
        input=canonical(read.input),
        budget=budget_of(written),
        expires_at=expires_at if ends_by_expiry(written) else None,
        max_runs=read.limits.max_runs,
        requires_approval=read.requires_approval,
        scopes=read.scopes,
    )


@lru_cache(maxsize=20_000)
def task_terms(spec: str) -> TaskTerms:
    """The terms of a task's canonical spec text."""
    written = json.loads(spec)
    inputs = written.get("inputs")
    return TaskTerms(
        limit=written.get("concurrency", {}).get("limit"),
        inputs=frozenset(inputs) if inputs else None,
        requires_approval=written.get("requires_approval", False),
    )


def start_by(terms: Terms, created_at: datetime) -> datetime | None:
    """Until when a run that is made now must have begun, None where it may wait (X-18)."""
    return created_at + terms.start_within if terms.start_within else None


def calendars_of(spec: str) -> tuple[str, ...]:
    """The names of the calendars that a canonical spec text names."""
    if '"calendars":' not in spec:  # most name none, and this is asked for every trigger of every pass
        return ()
    return tuple(json.loads(spec)["schedule"].get("calendars", ()))


def schedule_of(spec: Mapping[str, Any], resolved: str, calendars: Closed = ()) -> Schedule:
    """A spec's schedule with the instant that its deploy worked out for an `in` (S-15), up to its expiry (X-08)."""
    at: str | None = json.loads(resolved).get("at")
    return parse(timing(spec["schedule"]), instant(at) if at else None, calendars, bounds.expires_at(spec))


def ends_by_expiry(spec: Mapping[str, Any]) -> bool:
    """Whether it is `limits.expires_at` that ends the schedule, and not its own last fire."""
    expires_at, block = bounds.expires_at(spec), spec["schedule"]
    if expires_at is None or not ("cron" in block or "every" in block):
        return False
    _, until = bounds.ends(block)
    return until is None or expires_at <= until


def timing(block: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a `schedule` block that says when: a change of anything else keeps watermark and phase (R-21)."""
    return {field: value for field, value in block.items() if field != "kickoff_time_input"}


def resolve(block: Mapping[str, Any], now: datetime) -> str:
    """Canonical text of what a deploy at `now` works out of a schedule, once and for all: the `at` of an `in`."""
    if "in" not in block:
        return "{}"
    at = now + duration(block["in"], "in")
    if at.microsecond:
        at = at.replace(microsecond=0) + timedelta(seconds=1)
    return canonical({"at": at.strftime("%Y-%m-%dT%H:%M:%SZ")})

"""A trigger's spec compiled for deciding: its schedule and its budget, made once per text and kept."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from sys import intern

from reconcile.decide.budget import Budget, budget_of
from reconcile.schedule.definition import Closed, Schedule, parse
from revisions.history.chain import canonical
from revisions.spec.stored import resolved_at, trigger_spec
from revisions.spec.trigger import CatchupPolicy, OverlapPolicy, ScheduleSpec, TriggerSpec


@dataclass(frozen=True, slots=True)
class Terms:
    """A spec with what follows from it: `input` is the canonical text of its input, `expires_at` is there only where
    it is what ends the schedule (X-08)."""

    spec: TriggerSpec
    schedule: Schedule
    overlap: OverlapPolicy
    input: str
    budget: Budget | None
    expires_at: datetime | None

    @property
    def count(self) -> int | None:
        """Number of occurrences that may start since the baseline (S-07)."""
        return self.spec.schedule.count

    def delay(self, trigger: str) -> timedelta:
        """Return how much later than its nominal times a trigger of that name fires: always the same (S-12)."""
        return offset(self.spec.schedule.spread, trigger)

    def start_by(self, created_at: datetime) -> datetime | None:
        """Return until when a run that is made now must have begun, None where it may wait (X-18)."""
        return created_at + self.spec.start_within if self.spec.start_within else None


@lru_cache(maxsize=200_000)
def terms(spec: str, resolved: str, calendars: Closed = ()) -> Terms:
    """Compile a canonical spec text; `calendars` are the days of those it names.

    Raises ValueError for one this release cannot read (L-13).
    """
    read = trigger_spec(spec)
    return Terms(
        spec=read,
        schedule=schedule_of(read, resolved, calendars),
        overlap=overlap_of(read),
        input=intern(canonical(read.input)),
        budget=budget_of(read),
        expires_at=read.limits.expires_at if ends_by_expiry(read) else None,
    )


def overlap_of(spec: TriggerSpec) -> OverlapPolicy:
    """Return the overlap policy that is written, or the one that suits the catch-up policy."""
    if spec.overlap is not None:
        return spec.overlap
    return OverlapPolicy.QUEUE_ALL if spec.catchup.policy is CatchupPolicy.ALL else OverlapPolicy.SKIP


def schedule_of(spec: TriggerSpec, resolved: str, calendars: Closed = ()) -> Schedule:
    """Make a spec's schedule with the instant that its deploy worked out for an `in` (S-15), up to its expiry (X-08).

    Raises ScheduleError.
    """
    return parse(spec.schedule, resolved_at(resolved), calendars, spec.limits.expires_at)


def ends_by_expiry(spec: TriggerSpec) -> bool:
    """Tell whether it is `limits.expires_at` that ends the schedule, and not its own last fire."""
    expires_at, block = spec.limits.expires_at, spec.schedule
    if expires_at is None or (block.cron is None and block.every is None):
        return False
    return block.until is None or expires_at <= block.until


def resolve(block: ScheduleSpec, now: datetime) -> str:
    """Return the canonical text of what a deploy at `now` works out of a schedule once and for all: the `at` of an
    `in` (S-15)."""
    if block.in_ is None:
        return "{}"
    at = now + block.in_
    if at.microsecond:
        at = at.replace(microsecond=0) + timedelta(seconds=1)
    return canonical({"at": at.strftime("%Y-%m-%dT%H:%M:%SZ")})


def offset(window: timedelta, trigger: str) -> timedelta:
    """Return a trigger's place within a window: the same for ever, whole seconds below `window` (S-12)."""
    seconds = int(window.total_seconds())
    if seconds == 0:
        return window
    return timedelta(seconds=int.from_bytes(sha256(trigger.encode()).digest()[:8]) % seconds)

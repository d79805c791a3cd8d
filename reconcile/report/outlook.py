"""Next fires of a trigger, the holds on them, and warnings before it is deployed, fired or applied.

Warnings are about a spec (E-15, X-08), about changes that others made to a folder's triggers, and about the start rate
after applying it (R-22, S-09, S-13, L-18).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from reconcile.decide import budget
from reconcile.decide.admission import Demanded, per_second
from reconcile.decide.budget import Spending, budget_of
from reconcile.decide.terms import schedule_of
from reconcile.report.plan import FolderPlan, LastDeploy, PlannedTrigger, PlanStep, ServerState, Verb, applied, pruned
from reconcile.schedule.definition import Schedule
from reconcile.schedule.fires import Fire, LeftOut, fires, left_out
from reconcile.schedule.ranges import MOMENT
from revisions.history.triggers import Action, DifferenceKind, FieldDifference
from revisions.ids import TriggerKey, utc_text
from revisions.spec.trigger import TriggerManifest, TriggerSpec

EXPIRY_NOTICE: Final = timedelta(days=7)
"""Remaining lifetime below which an expiry is mentioned."""


def destructive_warnings(spec: TriggerSpec) -> Iterator[str]:
    """Warn when the runs of a spec are told that they may destroy data (E-15)."""
    if spec.allow_destructive:
        yield (
            "spec.allow_destructive is on: its runs are told that they may destroy and overwrite, whoever caused them "
            "and whatever their input says; leave it out unless the task needs it"
        )


def limit_warnings(spec: TriggerSpec, successes: int, spending: Spending | None, now: datetime) -> Iterator[str]:
    """Warn about limits that are reached, or will be soon.

    `successes` is the number of runs that count towards `limits.max_runs`; `spending` is what the current budget
    period has cost so far, None for a trigger without a budget or without runs.
    """
    limit = budget_of(spec)
    if limit and spending and (text := budget.warning(limit, spending, now)):
        yield text
    if most := _reached_max_runs(spec, successes):
        yield (
            f"{successes} of its runs have succeeded, and limits.max_runs is {most}: it is deactivated before "
            "anything more fires, unless limits.max_runs is raised"
        )
    expires_at = spec.limits.expires_at
    if expires_at and expires_at - now <= EXPIRY_NOTICE:
        yield f"it expires at {utc_text(expires_at)}: nothing fires from then on, unless limits.expires_at is moved"


def manual_run_warnings(spec: TriggerSpec, successes: int) -> Iterator[str]:
    """Warn that runs started by hand are not stopped by `limits.max_runs`."""
    if most := _reached_max_runs(spec, successes):
        yield f"{successes} of its runs have succeeded, and limits.max_runs is {most}: runs by hand go beyond it"


def _reached_max_runs(spec: TriggerSpec, successes: int) -> int | None:
    """Return `limits.max_runs` if as many runs have succeeded."""
    most = spec.limits.max_runs
    return most if most is not None and successes >= most else None


def explain(plan: FolderPlan, pasts: Mapping[TriggerKey, LastDeploy]) -> FolderPlan:
    """Return the plan with recorded origins and with the deploys that others made meanwhile."""
    explained = []
    for change in plan.changes:
        past = pasts.get(change.key) if isinstance(change.key, TriggerKey) else None
        explained.append(_explained(change, past, plan.origin) if past else change)
    return replace(plan, changes=tuple(explained))


def _explained(change: PlanStep, past: LastDeploy, origin: str | None) -> PlanStep:
    found = tuple(_with_origin(difference, past) for difference in change.differences)
    is_gone = past.action == Action.DELETE
    if is_gone != (change.verb is Verb.CREATE):
        drifted = False  # it came or went since the rows were read: the precondition will tell
    elif is_gone:
        drifted = origin is None or past.reason != pruned(origin)
    else:
        is_own = (past.origin, past.reason) == (origin, applied(origin))
        says_more = change.verb is Verb.DELETE or any(difference.path != "origin" for difference in found)
        drifted = says_more and not is_own
    return replace(change, differences=found, drift=past if drifted else None)


def _with_origin(difference: FieldDifference, past: LastDeploy) -> FieldDifference:
    if difference.path != "origin" or past.origin is None:
        return difference
    return replace(difference, kind=DifferenceKind.CHANGED, before=past.origin)


def after(plan: FolderPlan, server: ServerState, standing: Demanded, now: datetime) -> Demanded:
    """Return the start rate after the steps of the plan."""
    changed = sum(_change(change, server, now) for change in plan.changes)
    return Demanded(max(0.0, standing.asked + changed), standing.allowed)


def _change(change: PlanStep, server: ServerState, now: datetime) -> float:
    if not isinstance(change.key, TriggerKey):
        return 0.0
    row = server.triggers.get(change.key)
    before = _rate(row.typed, now) if row and row.active else 0.0
    return _after(change, row, now) - before


def _after(change: PlanStep, row: PlannedTrigger | None, now: datetime) -> float:
    if change.verb is Verb.DELETE or change.declared is None:
        return 0.0
    manifest = change.declared.manifest
    assert isinstance(manifest, TriggerManifest)
    active = manifest.spec.active
    if active is None:
        active = row.active if row else True
    return _rate(manifest.spec, now) if active else 0.0


def _rate(spec: TriggerSpec, now: datetime) -> float:
    """Return starts a second; a schedule that cannot be read asks for nothing, nor does one that fires only once."""
    if spec.schedule.in_ is not None:
        return 0.0
    try:
        return per_second(schedule_of(spec, "{}"), now)
    except ValueError:
        return 0.0


@dataclass(frozen=True, slots=True)
class HoldSpan:
    """Time [from_at, until_at) in which nothing starts; without an end it lasts until somebody lifts it."""

    from_at: datetime
    until_at: datetime | None
    reason: str

    def covers(self, at: datetime) -> bool:
        return self.from_at <= at and (self.until_at is None or at < self.until_at)

    def earlier(self, span: timedelta) -> "HoldSpan":
        """Return the hold in the nominal time of a trigger that fires `span` after its nominal times (S-12)."""
        return HoldSpan(self.from_at - span, self.until_at - span if self.until_at else None, self.reason)


@dataclass(frozen=True, slots=True)
class Upcoming:
    """Fires, and wall times before the last of them that do not fire, both in order."""

    fires: Sequence[Fire]
    left_out: Sequence[LeftOut]


def upcoming(schedule: Schedule, after: datetime, limit: int, holdings: Sequence[HoldSpan], most: int) -> Upcoming:
    """The first `limit` fires after an instant that nothing holds, and at most `most` wall times that are left out.

    Of two that hold at once, the first that is given names the reason. Under one without an end there are no fires:
    what it holds is told instead, as many as were asked for.
    """
    found: list[Fire] = []
    held: list[tuple[Fire, str]] = []
    at = after
    for until, reason in _stretches(holdings, after):
        if len(found) >= limit:
            break
        if reason is None:
            found += fires(schedule, at, until, limit - len(found))
        else:
            room = limit - len(found) if until is None else most - len(held)
            held += [(fire, reason) for fire in fires(schedule, at, until, room)]
        at = until or at
    seen = [*found[-1:], *(fire for fire, _ in held[-1:])]
    if not seen:
        return Upcoming((), ())
    missing = left_out(schedule, after, max(fire.at for fire in seen), most)
    missing += [LeftOut(fire.local.isoformat()[:19], reason) for fire, reason in held]
    return Upcoming(found, sorted(missing, key=lambda one: one.local)[:most])


def _stretches(holdings: Sequence[HoldSpan], after: datetime) -> Iterator[tuple[datetime | None, str | None]]:
    """Time after an instant in pieces: until when, included, and what holds it; the last piece has no end."""
    edges = {edge for one in holdings for edge in (one.from_at, one.until_at) if edge and edge > after + MOMENT}
    begins = after + MOMENT
    for edge in (*sorted(edges), None):
        reason = next((one.reason for one in holdings if one.covers(begins)), None)
        yield (edge - MOMENT if edge else None), reason
        begins = edge or begins

"""What the next revision of a trigger is to be, and what its baseline; pure, so that every case is a plain call."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from reconcile.decide.budget import budget_of
from reconcile.decide.expect import expectation
from reconcile.schedule import bounds, ranges
from reconcile.schedule.definition import Closed, Once, parse
from reconcile.schedule.fires import fires, never_fires
from reconcile.schedule.notation import ScheduleError, duration, instant
from reconcile.schedule.ranges import Range
from reconcile.schedule.terms import ends_by_expiry, resolve, schedule_of, timing
from revisions.errors import Conflict, Fault, Invalid
from revisions.history.triggers import Action, Trigger, spec_of
from revisions.ids import TriggerKey, utc_text
from revisions.manifests import Trigger as Manifest
from revisions.outcomes import OccurrenceOutcome

_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)
"""Stands for the deploy's time where only the form of an `in` is judged."""


@dataclass(frozen=True, slots=True)
class NextRevision:
    """A revision before it has its number, time and hash; `key` is the new name of a trigger that is renamed.

    `rebases`: it declares a baseline although the schedule stays.
    """

    action: Action
    active: bool
    reason: str
    tags: tuple[str, ...]
    until: datetime | None
    origin: str | None
    resolved: str
    scopes: str
    spec: str
    key: TriggerKey | None = None
    rebases: bool = False


@dataclass(frozen=True, slots=True)
class NewBaseline:
    """A new baseline (R-21): from `watermark` on occurrences count; what was undecided before is superseded."""

    watermark: datetime
    next_fire_at: datetime | None
    superseded: Range | None


def deploy(
    current: Trigger | None,
    manifest: Manifest,
    written: str,
    now: datetime,
    *,
    reason: str,
    origin: str | None,
    scopes: str,
    calendars: Closed = (),
    takes_over: bool = False,
) -> NextRevision | None:
    """The DEPLOY that a manifest asks for, None when the trigger is that already (R-06).

    `takes_over`: its author may start it no more, so that whoever deploys the same becomes the author (X-15).

    A deleted trigger is created anew (R-05). What a deploy does not name it leaves alone: `active` and with it a pause
    (R-20), and the origin (R-22). `calendars` are the days of those the manifest names (S-13).
    Raises Invalid when a new or changed schedule has no fire ahead (S-02).
    """
    existing = current if current and not current.deleted else None
    named = manifest.spec.active
    origin = origin if origin is not None or existing is None else existing.origin
    asked = (written, manifest.metadata.tags, origin)
    same = existing is not None and (existing.spec, existing.tags, existing.origin) == asked
    if existing and same and not takes_over and named in (None, existing.active):
        return None
    block = manifest.written["schedule"]
    same_timing = existing is not None and timing(block) == timing(_block(existing))
    resolved = existing.resolved if existing and same_timing else resolve(block, now)
    active = named if named is not None else existing is None or existing.active
    same_end = existing is not None and bounds.expires_at(manifest.written) == bounds.expires_at(spec_of(existing.spec))
    if not (same_timing and same_end) or (active and existing and not existing.active):
        _refuse_without_fire(manifest.written, resolved, now, calendars)
    return NextRevision(
        action=Action.DEPLOY,
        active=active,
        reason=reason,
        tags=manifest.metadata.tags,
        until=existing.until if existing and named is None else None,
        origin=origin,
        resolved=resolved,
        scopes=scopes,
        spec=written,
    )


def activate(
    current: Trigger, now: datetime, *, reason: str, started: int = 0, calendars: Closed = ()
) -> NextRevision | None:
    """The ACTIVATE, None for what is active (R-08); `started` is how many occurrences did since the baseline.

    Raises Invalid when no fire is left (S-15).
    """
    if current.active:
        return None
    _refuse_without_fire(spec_of(current.spec), current.resolved, now, calendars)
    if (most := bounds.count(_block(current))) is not None and started >= most:
        hint = "deploy another schedule, or a greater count"
        raise Invalid.at("spec.schedule.count", f"all {most} occurrences have started", hint)
    return replace(_same(current, Action.ACTIVATE, reason), active=True, until=None)


def deactivate(current: Trigger, now: datetime, *, reason: str, until: datetime | None) -> NextRevision | None:
    """The DEACTIVATE, None for what is inactive (R-08). Raises Invalid when `until` is past."""
    if until is not None:
        refuse_past(until, now)
    if not current.active:
        return None
    return replace(_same(current, Action.DEACTIVATE, reason), active=False, until=until)


def refuse_past(until: datetime, now: datetime) -> None:
    """A pause cannot end in the past. Raises Invalid."""
    if until <= now:
        raise Invalid.at("until", f"{utc_text(until)} is past", "name an instant ahead, or leave it out")


def delete(current: Trigger, *, reason: str) -> NextRevision:
    """The DELETE: soft, the history stays."""
    return replace(_same(current, Action.DELETE, reason), active=False, until=None)


def rename(current: Trigger, key: TriggerKey, *, reason: str) -> NextRevision | None:
    """The DEPLOY under another name, None for the name it has (R-22)."""
    return None if key == current.key else replace(_same(current, Action.DEPLOY, reason), key=key)


def rebase(current: Trigger, watermark: datetime, now: datetime, *, reason: str) -> NextRevision:
    """The DEPLOY of the same that sets a watermark ahead of now back to now (L-12). Raises Conflict for any other."""
    if watermark <= now:
        detail = f"the watermark of {current.key} is not ahead of now, so it stays"
        raise Conflict.hinted("watermark", detail, "only one that is ahead can be set back")
    said = f"watermark set back from {utc_text(watermark)}" + (f": {reason}" if reason else "")
    return replace(_same(current, Action.DEPLOY, said), rebases=True)


def next_fire(key: TriggerKey, following: NextRevision, after: datetime, calendars: Closed) -> datetime | None:
    """When a revision fires first after a nominal instant, None for one that is inactive or has no fire left."""
    if not following.active:
        return None
    spec = spec_of(following.spec)
    schedule = schedule_of(spec, following.resolved, calendars)
    late = bounds.offset(bounds.spread(spec["schedule"]), str(following.key or key))
    end = bounds.expires_at(spec) if ends_by_expiry(spec) else None
    return next((fire.at + late for fire in fires(schedule, after, None, 1)), end)


def new_baseline(
    key: TriggerKey,
    current: Trigger | None,
    following: NextRevision,
    now: datetime,
    *,
    watermark: datetime | None,
    backlogs: Sequence[tuple[datetime, datetime]],
    resumed_at: datetime | None = None,
    calendars: tuple[Closed, Closed] = ((), ()),
) -> NewBaseline:
    """The baseline of a change that needs one; `resumed_at` is when a pause was to end, if that is what happens.

    A pause that ended while nobody looked resumes no earlier than what was deployed meanwhile. `calendars` are the days
    of those the current and the following spec name.
    """
    begins = resumed_at or now
    if resumed_at and watermark:
        begins = max(resumed_at, watermark)
    left = None
    if current and has_occurrences(current) and watermark is not None:
        left = _undecided(current, [*backlogs, (watermark, now)], calendars[0])
    return NewBaseline(begins, next_fire(key, following, begins, calendars[1]), left)


def _undecided(current: Trigger, spans: Sequence[tuple[datetime, datetime]], calendars: Closed) -> Range | None:
    """What is superseded; of a spec that cannot be read nobody can say, and it must be possible to be rid of it."""
    try:
        schedule = schedule_of(spec_of(current.spec), current.resolved, calendars)
    except ScheduleError:
        return None
    return ranges.joined(schedule, spans, OccurrenceOutcome.SUPERSEDED)


def keeps_watermark(current: Trigger | None, following: NextRevision) -> bool:
    """Whether a change leaves the watermark where it is (R-21).

    First deploy, un-delete, changed timing, resume, pause and deletion declare a baseline, and nothing else does. Under
    `catchup: {inactive: true}` inactive and deleted time has occurrences too: there only changed timing does, and to
    begin or to end with that while inactive.
    """
    if current is None or following.rebases:
        return False
    spec = spec_of(following.spec)
    if timing(spec["schedule"]) != timing(_block(current)):
        return False
    counts = _counts_inactive(spec)
    if not current.active and counts != _counts_inactive(spec_of(current.spec)):
        return False
    if counts:
        return True
    return not current.deleted and following.action is not Action.DELETE and following.active == current.active


def moves_end(current: Trigger | None, following: NextRevision) -> bool:
    """Whether a change lets the trigger expire at another time (X-08)."""
    if current is None:
        return False
    return bounds.expires_at(spec_of(current.spec)) != bounds.expires_at(spec_of(following.spec))


def moves_budget(current: Trigger, following: NextRevision) -> bool:
    """Whether a change lets the trigger spend another amount, in another period, or by another estimate (X-08)."""
    return budget_of(spec_of(current.spec)) != budget_of(spec_of(following.spec))


def has_occurrences(trigger: Trigger) -> bool:
    """Whether the time that goes by now counts: of what is inactive or deleted only where its spec says so (R-21)."""
    return trigger.active or _counts_inactive(spec_of(trigger.spec))


def _counts_inactive(spec: Mapping[str, Any]) -> bool:
    return bool(spec.get("catchup", {}).get("inactive", False))


def faults(manifest: Manifest) -> list[Fault]:
    """What is wrong with the texts of a manifest that only this package can read: schedule and spans (S-01, S-02)."""
    found = []
    try:
        block = manifest.written["schedule"]
        parse(timing(block), _ANY_TIME if "in" in block else None)
        resolve(block, _ANY_TIME)
    except ScheduleError as error:
        found.append(Fault(f"spec.schedule.{error.path}".rstrip("."), error.message, error.hint))
    if manifest.spec.catchup.window is not None:
        try:
            duration(manifest.spec.catchup.window)
        except ScheduleError as error:
            found.append(Fault("spec.catchup.window", error.message, error.hint))
    try:
        bounds.start_within(manifest.spec.start_within)
    except ScheduleError as error:
        found.append(Fault("spec.start_within", error.message, error.hint))
    try:
        expectation(manifest.written)
    except ScheduleError as error:
        found.append(Fault(f"spec.{error.path}", error.message, error.hint))
    return [*found, *_limit_faults(manifest)]


def _limit_faults(manifest: Manifest) -> Iterator[Fault]:
    limits, written = manifest.spec.limits, manifest.written.get("limits", {})
    try:
        bounds.expires_at(manifest.written)
    except ScheduleError as error:
        yield Fault("spec.limits.expires_at", error.message, error.hint)
    if limits.max_cost is None:
        for field in ("estimate", "budget_period"):
            if field in written:
                yield Fault(
                    f"spec.limits.{field}", "means something only beside max_cost", "add max_cost, or remove it"
                )
    elif limits.estimate is not None and limits.estimate > limits.max_cost:
        detail = f"is {limits.estimate}, so max_cost {limits.max_cost} would let nothing start"
        yield Fault("spec.limits.estimate", detail, "lower it, or raise max_cost")
    if "{{" in (manifest.spec.serialize_key or ""):
        hint = "write a plain value: this version does not fill templates in"
        yield Fault("spec.serialize_key", "looks like a template", hint)


def _same(current: Trigger, action: Action, reason: str) -> NextRevision:
    return NextRevision(
        action=action,
        active=current.active,
        reason=reason,
        tags=current.tags,
        until=current.until,
        origin=current.origin,
        resolved=current.resolved,
        scopes=current.scopes,
        spec=current.spec,
    )


def _wall(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """What of a block says when, its bounds left out."""
    return {field: block[field] for field in ("timezone", "gap", "fold", "anchor") if field in block}


def _block(trigger: Trigger) -> Mapping[str, Any]:
    block: Mapping[str, Any] = spec_of(trigger.spec)["schedule"]
    return block


def _refuse_without_fire(spec: Mapping[str, Any], resolved: str, now: datetime, calendars: Closed) -> None:
    block, expires_at = spec["schedule"], bounds.expires_at(spec)
    if expires_at and expires_at <= now:
        detail = f"{utc_text(expires_at)} is past"
        raise Invalid.at("spec.limits.expires_at", detail, "name an instant ahead, or leave it out")
    schedule = schedule_of(spec, resolved, calendars)
    if isinstance(schedule, Once) and expires_at and schedule.at >= expires_at:
        detail = f"lies not after the only fire, {utc_text(schedule.at)}"
        raise Invalid.at("spec.limits.expires_at", detail, "name a later instant, or leave it out")
    if not never_fires(schedule, now):
        return
    if "until" in block and instant(block["until"]) <= now:
        raise Invalid.at("spec.schedule.until", f"{block['until']} is past", "name an instant ahead, or leave it out")
    bounded = [field for field in ("start", "until", "exclude", "calendars") if field in block]
    bounded += ["limits.expires_at"] if expires_at else []
    kind = next(field for field in ("cron", "at", "in", "every") if field in block)
    bare = {"schedule": {kind: block[kind], **_wall(block)}}
    if bounded and not never_fires(schedule_of(bare, resolved), now):
        why, hint = f"has no fire ahead within {', '.join(bounded)}", "widen the bounds"
    elif kind == "cron":
        why, hint = "never fires within 50 years", "look at its day and month"
    elif fires(schedule, now, None, 1):
        why, hint = "lies more than 50 years ahead", "name an instant that somebody will live to see"
    else:
        why, hint = f"has no fire left after {utc_text(now)}", "deploy a schedule with a fire ahead"
    raise Invalid.at(f"spec.schedule.{kind}", f"{block[kind]!r} {why}", hint)

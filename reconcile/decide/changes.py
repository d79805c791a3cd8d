"""Next revision of a trigger and its baseline, computed by pure functions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from reconcile.decide.budget import budget_of
from reconcile.decide.terms import resolve, schedule_of, terms
from reconcile.schedule import ranges
from reconcile.schedule.definition import Bounded, Closed, Once, parse
from reconcile.schedule.fires import fires, never_fires
from reconcile.schedule.ranges import Range
from revisions.errors import Conflict, Fault, Invalid
from revisions.history.triggers import Action, Trigger
from revisions.ids import TriggerKey, utc_text
from revisions.outcomes import OccurrenceOutcome
from revisions.spec.notation import ScheduleError
from revisions.spec.stored import readable_trigger, same_timing, trigger_spec, written_schedule
from revisions.spec.trigger import ExpectSpec, TriggerManifest, TriggerSpec

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
    manifest: TriggerManifest,
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
    keeps_timing = existing is not None and same_timing(written, existing.spec)
    resolved = existing.resolved if existing and keeps_timing else resolve(manifest.spec.schedule, now)
    active = named if named is not None else existing is None or existing.active
    keeps_end = existing is not None and manifest.spec.limits.expires_at == _expires_at(existing.spec)
    if not (keeps_timing and keeps_end) or (active and existing and not existing.active):
        _refuse_without_fire(manifest.spec, written, resolved, now, calendars)
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
    spec = trigger_spec(current.spec)
    _refuse_without_fire(spec, current.spec, current.resolved, now, calendars)
    if (most := spec.schedule.count) is not None and started >= most:
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
    """Return the first fire after a nominal instant; without one, the expiry. None if the revision is inactive."""
    if not following.active:
        return None
    found = terms(following.spec, following.resolved, calendars)
    spread_offset = found.delay(str(following.key or key))
    return next((fire.at + spread_offset for fire in fires(found.schedule, after, None, 1)), found.expires_at)


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
    """Return the superseded occurrences. A spec that cannot be read has none, so that its trigger can be replaced."""
    try:
        schedule = schedule_of(trigger_spec(current.spec), current.resolved, calendars)
    except ValueError:
        return None
    return ranges.joined(schedule, spans, OccurrenceOutcome.SUPERSEDED)


def keeps_watermark(current: Trigger | None, following: NextRevision) -> bool:
    """Return True if a change leaves the watermark where it is (R-21).

    Only these changes set a new baseline: the first deploy, bringing a deleted trigger back, a changed timing,
    activation, deactivation, deletion and rebase. With `catchup: {inactive: true}`, inactive and deleted time has
    occurrences too. Then only the first deploy, a changed timing and a rebase do, and turning `inactive` on or off
    while the trigger is inactive.
    """
    if current is None or following.rebases:
        return False
    if not same_timing(following.spec, current.spec):
        return False
    counts = _counts_inactive(following.spec)
    if not current.active and counts != _counts_inactive(current.spec):
        return False
    if counts:
        return True
    return not current.deleted and following.action is not Action.DELETE and following.active == current.active


def moves_end(current: Trigger | None, following: NextRevision) -> bool:
    """Return True if a change moves the trigger's expiry (X-08)."""
    if current is None:
        return False
    return _expires_at(current.spec) != _expires_at(following.spec)


def moves_budget(current: Trigger, following: NextRevision) -> bool:
    """Return True if a change alters the budget: its amount, period or estimate (X-08)."""
    return budget_of(readable_trigger(current.spec)) != budget_of(readable_trigger(following.spec))


def has_occurrences(trigger: Trigger) -> bool:
    """Return True if the trigger has occurrences now; inactive or deleted, only if its spec says so (R-21)."""
    return trigger.active or _counts_inactive(trigger.spec)


def _counts_inactive(spec: str) -> bool:
    return readable_trigger(spec).catchup.inactive


def _expires_at(spec: str) -> datetime | None:
    return readable_trigger(spec).limits.expires_at


def faults(manifest: TriggerManifest) -> list[Fault]:
    """Return what is wrong with a manifest whose fields are right one by one: its schedule as a whole, and fields that
    need or exclude each other (S-01, S-02)."""
    spec, found = manifest.spec, []
    try:
        parse(spec.schedule, _ANY_TIME if spec.schedule.in_ is not None else None)
    except ScheduleError as error:
        found.append(Fault(f"spec.schedule.{error.path}".rstrip("."), error.message, error.hint))
    if spec.expect == ExpectSpec():
        found.append(Fault("spec.expect", "names nothing", 'write success_by: "09:30", or within: 2h, or both'))
    return [*found, *_limit_faults(spec)]


def _limit_faults(spec: TriggerSpec) -> Iterator[Fault]:
    limits = spec.limits
    if limits.max_cost is None:
        for field, value in (("estimate", limits.estimate), ("budget_period", limits.budget_period)):
            if value is not None:
                yield Fault(
                    f"spec.limits.{field}", "means something only beside max_cost", "add max_cost, or remove it"
                )
    elif limits.estimate is not None and limits.estimate > limits.max_cost:
        detail = f"is {limits.estimate}, so max_cost {limits.max_cost} would let nothing start"
        yield Fault("spec.limits.estimate", detail, "lower it, or raise max_cost")
    if "{{" in (spec.serialize_key or ""):
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


def _refuse_without_fire(spec: TriggerSpec, text: str, resolved: str, now: datetime, calendars: Closed) -> None:
    """Raise Invalid for a spec with no fire ahead; `text` is the spec as written, which the messages quote."""
    block, expires_at, written = spec.schedule, spec.limits.expires_at, written_schedule(text)
    if expires_at and expires_at <= now:
        detail = f"{utc_text(expires_at)} is past"
        raise Invalid.at("spec.limits.expires_at", detail, "name an instant ahead, or leave it out")
    schedule = schedule_of(spec, resolved, calendars)
    if isinstance(schedule, Once) and expires_at and schedule.at >= expires_at:
        detail = f"lies not after the only fire, {utc_text(schedule.at)}"
        raise Invalid.at("spec.limits.expires_at", detail, "name a later instant, or leave it out")
    if not never_fires(schedule, now):
        return
    if block.until is not None and block.until <= now:
        raise Invalid.at("spec.schedule.until", f"{written['until']} is past", "name an instant ahead, or leave it out")
    bounds = {"start": block.start, "until": block.until, "exclude": block.exclude, "calendars": block.calendars}
    bounded = [field for field, value in {**bounds, "limits.expires_at": expires_at}.items() if value]
    beat = schedule.beat if isinstance(schedule, Bounded) else schedule
    kind = block.kinds[0]
    if bounded and not never_fires(beat, now):
        why, hint = f"has no fire ahead within {', '.join(bounded)}", "widen the bounds"
    elif kind == "cron":
        why, hint = "never fires within 50 years", "look at its day and month"
    elif fires(schedule, now, None, 1):
        why, hint = "lies more than 50 years ahead", "name an instant that somebody will live to see"
    else:
        why, hint = f"has no fire left after {utc_text(now)}", "deploy a schedule with a fire ahead"
    raise Invalid.at(f"spec.schedule.{kind}", f"{written[kind]!r} {why}", hint)

"""Why a trigger fired, or did not, at an instant, in words (U-03)."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from reconcile.report import verdicts, wording
from reconcile.report.verdicts import InstantFacts, InstantView, Verdict, began_late, decided_late
from reconcile.report.wording import Advice, at_text, because, span_text
from reconcile.schedule.fires import Fire
from revisions.outcomes import RunSource, SkipReason


@dataclass(frozen=True, slots=True)
class Explanation:
    """Verdict, and sentences: the first gives the answer, the last the next step."""

    verdict: Verdict
    sentences: tuple[str, ...]


def explain(instant: InstantView, facts: InstantFacts) -> Explanation:
    """Puts it into words."""
    verdict = verdicts.verdict(instant, facts)
    tell = {
        Verdict.NOT_THERE: _not_there,
        Verdict.AHEAD: _ahead,
        Verdict.INACTIVE: _inactive,
        Verdict.NOT_NAMED: _not_named,
        Verdict.OVER: _over,
        Verdict.STARTED: _started,
        Verdict.SKIPPED: _skipped,
        Verdict.UNDECIDED: _undecided,
        Verdict.NOT_KEPT: _not_kept,
        Verdict.MISSING: _missing,
    }[verdict]
    return Explanation(verdict, tuple(tell(instant, facts)))


def _not_there(instant: InstantView, facts: InstantFacts) -> Iterator[str]:
    yield f"At {at_text(instant.at)} there was no trigger {facts.trigger} yet."
    yield f"`triggerctl history {facts.trigger}` shows when it was first deployed."


def _ahead(instant: InstantView, facts: InstantFacts) -> Iterator[str]:
    denied = facts.obstacles.denied
    if instant.fire and denied:
        yield f"{_time(instant.fire)} is still to come, and it will start nothing then, if nothing changes: {denied}."
    elif instant.fire:
        yield f"{_time(instant.fire)} is still to come: it will fire then, if nothing changes."
    else:
        yield f"{at_text(instant.at)} is still to come, and the schedule does not name it."
        yield from _around(instant)
    yield from _in_force(instant)
    yield f"`triggerctl next {facts.trigger}` shows what is ahead."


def _inactive(instant: InstantView, facts: InstantFacts) -> Iterator[str]:
    assert instant.period is not None
    trigger, until = instant.period.trigger, instant.period.until
    state = "deleted" if trigger.deleted else "inactive"
    named = ", though its schedule names that instant" if instant.fire else ""
    found = wording.of_deactivation(trigger.stopped_for, trigger.deactivated_reason or "")
    yield f"It did not fire at {at_text(instant.at)}: it was {state} then{named}."
    was = "was" if until else "is"
    made = f"made by {trigger.changed_by} at {at_text(trigger.changed_at)}"
    yield f"Revision {trigger.revision} {was} in force, {made}{because(found.why)}."
    if until:
        yield f"That ended at {at_text(until)}."
    elif trigger.deleted:
        yield "Deploy it again, or roll back to an earlier revision, to have it fire from then on."
    else:
        if trigger.until:
            yield f"The pause ends by itself at {at_text(trigger.until)}."
        yield from _next(found, facts)


def _not_named(instant: InstantView, facts: InstantFacts) -> Iterator[str]:
    yield f"It did not fire at {at_text(instant.at)}: its schedule does not name that instant."
    yield from _around(instant)
    yield from _in_force(instant)
    if instant.before:
        at = at_text(instant.before.at)
        yield f"`triggerctl explain {facts.trigger} --at {at}` says what became of the one before."


def _over(instant: InstantView, facts: InstantFacts) -> Iterator[str]:
    assert instant.period is not None
    most = instant.period.terms.count
    yield f"It did not fire at {at_text(instant.at)}: all {most} that `count` allows had started before."
    yield from _in_force(instant)
    yield "Deploy it with a greater `count`, or without one, to have it fire again."


def _started(instant: InstantView, facts: InstantFacts) -> Iterator[str]:
    assert facts.run is not None
    made = facts.run
    if made.is_by_hand:
        meant = "" if made.source == RunSource.MANUAL else f" for {at_text(made.scheduled_at)}"
        yield f"Run {made.run_id} was made by {made.actor} at {at_text(made.began.created_at)}{meant} ({made.source})."
    else:
        assert instant.fire is not None
        late = span_text(made.began.created_at - instant.fire.at)
        yield f"It fired at {_time(instant.fire)}: run {made.run_id} was made {late} after that time."
        yield from decided_late(facts.past_holds, _due_at(instant), made.began.created_at)
    yield from began_late(facts.past_holds, made.began)
    found = wording.of_status(made.status)
    if made.waits_for:
        yield f"The run is {made.status}: it waits for {made.waits_for}."
        yield from _in_force(instant)
        return
    yield f"The run {found.why}{because(made.error or '')}."
    yield from _in_force(instant)
    yield from _next(found, facts)


def _skipped(instant: InstantView, facts: InstantFacts) -> Iterator[str]:
    assert instant.fire is not None
    assert facts.skip is not None
    skip = facts.skip
    found = wording.of_skip(skip.outcome, skip.reason)
    yield f"It did not fire at {_time(instant.fire)}: {found.why}."
    detail = f" ({skip.reason})" if skip.reason and skip.reason != SkipReason.RATE else ""
    yield f"That was decided at {at_text(skip.decided_at)}, as {skip.outcome}{detail}."
    yield from decided_late(facts.past_holds, _due_at(instant), skip.decided_at)
    if skip.until > skip.at:
        yield f"It is one of a range, from {at_text(skip.at)} to {at_text(skip.until)}."
    yield from _in_force(instant)
    yield from _next(found, facts)


def _undecided(instant: InstantView, facts: InstantFacts) -> Iterator[str]:
    assert instant.fire is not None
    yield f"It has not fired at {_time(instant.fire)} yet: that occurrence is not decided."
    yield from _waiting_for(instant.at, facts)
    yield from _in_force(instant)


def _waiting_for(at: datetime, facts: InstantFacts) -> Iterator[str]:
    """Yield the reasons an occurrence is undecided, the most important first, and the next step."""
    standing, obstacles = facts.standing, facts.obstacles
    backlog = next(((after, until) for after, until in standing.backlogs if after < at <= until), None)
    if hold := obstacles.hold:
        ends = f"until {at_text(hold.until)}" if hold.until else "until somebody lifts it"
        yield f"A {hold.kind} by {hold.owner} is in force {ends}{because(hold.reason)}: nothing is decided meanwhile."
        yield "Wait for its end, or end it."
    elif quarantine := obstacles.quarantine:
        yield f"It could not be decided since {at_text(quarantine.since)}: {quarantine.error}."
        yield f"It is tried again after {at_text(quarantine.until)}; mend what the error names."
    elif backlog:
        yield f"It waits in a backlog that is worked off oldest first and has come to {at_text(backlog[0])}."
        yield "Backlogs share `max_catchup_runs_per_loop` in each `resync_interval`; raise it, or wait."
    elif obstacles.asked_at:
        yield f"A run asked for the next fire at {at_text(obstacles.asked_at)}, in place of the schedule."
        yield "What the schedule names before that is recorded as superseded then."
    elif at + obstacles.spread_offset > facts.now:
        seconds = obstacles.spread_offset.total_seconds()
        yield f"`spread` gives this trigger its place {seconds:.0f} s after its nominal times."
        yield f"It fires at {at_text(at + obstacles.spread_offset)}."
    elif obstacles.rate_waiting_since:
        yield f"It waits for its turn since {at_text(obstacles.rate_waiting_since)}: `execution_qps` bounds starts."
        yield "It is tried again as soon as there is room; raise `execution_qps`, or wait."
    else:
        yield f"Everything up to {at_text(standing.watermark)} is decided; no pass of the loop has looked since."
        yield "See that a controller with its loop runs (`triggerctl up`), and what it logs about this trigger."


def _not_kept(instant: InstantView, facts: InstantFacts) -> Iterator[str]:
    assert instant.fire is not None
    assert facts.standing.forgotten_until is not None
    yield f"Nothing is kept of {_time(instant.fire)}: runs and skips are removed when they are old enough."
    yield f"That was done up to {at_text(facts.standing.forgotten_until)}; what was decided then can no longer be said."
    yield from _in_force(instant)


def _missing(instant: InstantView, facts: InstantFacts) -> Iterator[str]:
    assert instant.fire is not None
    yield f"It did not fire at {_time(instant.fire)}, and nothing says why: neither a run nor a skip is recorded."
    yield "That should never be: rows were removed, or there is a fault in the product."
    yield from _in_force(instant)
    yield f"`triggerctl audit {facts.trigger} --from {at_text(instant.at)}` shows what else is missing since."
    yield f"`triggerctl fire {facts.trigger}` makes a run now."


def _due_at(instant: InstantView) -> datetime:
    """Return the instant at which it was due: its nominal time plus the offset of its `spread` (S-12)."""
    return instant.at + (instant.period.delay if instant.period else timedelta(0))


def _in_force(instant: InstantView) -> Iterator[str]:
    if period := instant.period:
        was, then = "was" if period.until else "is", period.trigger
        yield f"Revision {then.revision} {was} in force, made by {then.changed_by} at {at_text(then.changed_at)}."


def _around(instant: InstantView) -> Iterator[str]:
    if instant.before:
        yield f"The nearest before it is {_time(instant.before)}."
    if instant.after:
        yield f"The nearest after it is {_time(instant.after)}."
    for out in instant.left_out:
        yield f"Between them, {out.local} was left out ({out.reason})."


def _next(found: Advice, facts: InstantFacts) -> Iterator[str]:
    if found.following:
        text = found.following.format(trigger=facts.trigger, run=facts.run.run_id if facts.run else "RUN")
        yield f"{text[0].upper()}{text[1:]}."


def _time(fire: Fire) -> str:
    """The instant, and what clocks in the schedule's zone showed."""
    local = fire.local.isoformat()
    return at_text(fire.at) if fire.local.utcoffset() == fire.at.utcoffset() else f"{at_text(fire.at)} ({local})"

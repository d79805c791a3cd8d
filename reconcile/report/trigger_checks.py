"""Checks of `doctor` about triggers and runs; pure functions from facts to a check (L-12, L-13, L-17, L-18)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from reconcile.decide.admission import FULL, is_too_much
from reconcile.decide.authority import TAKE_OVER
from reconcile.report.installation_checks import Check, fault, many, named, ok, span, warning
from revisions.ids import TriggerKey, utc_text
from revisions.outcomes import HoldKind

PATIENCE: Final = timedelta(minutes=10)
"""Waiting time after which a pending run suggests that no runner is up."""
UNANSWERED: Final = timedelta(days=1)
"""Waiting time after which an unanswered approval is reported."""
LATELY: Final = timedelta(days=7)
"""Period in which automatic deactivations and missed deadlines are reported."""
NEAR_END: Final = 0.9
"""Spent share of a budget from which it is reported, here and by the alert."""
LONGEST_ERROR: Final = 200
HUNGRIEST: Final = 3


@dataclass(frozen=True, slots=True)
class QuarantinedTrigger:
    """A trigger in quarantine: since when, and what went wrong last."""

    trigger: TriggerKey | str
    since: datetime
    until: datetime
    error: str


@dataclass(frozen=True, slots=True)
class ActiveHold:
    """A freeze or a blackout in force; `whom` it is for, in words."""

    kind: HoldKind
    whom: str
    until: datetime | None
    owner: str
    reason: str


def quarantine(quarantined: Sequence[QuarantinedTrigger]) -> Check:
    """Triggers that could not be decided (L-13)."""
    if not quarantined:
        return ok("quarantine", "every trigger can be decided")
    told = [f"{one.trigger} since {_whole(one.since)} ({_short(one.error)})" for one in quarantined]
    hint = "`triggerctl rebuild --apply` mends a row changed by hand; what a newer release wrote needs that release"
    return fault("quarantine", f"{many(len(quarantined), 'trigger')} cannot be decided: {named(told)}", hint)


def watermarks(ahead: Sequence[tuple[TriggerKey | str, datetime]]) -> Check:
    """Watermarks that lie ahead of now, after the clock was wrong (L-12)."""
    if not ahead:
        return ok("watermarks", "none is ahead of now")
    told = named(f"{trigger} at {_whole(watermark)}" for trigger, watermark in ahead)
    are = "is" if len(ahead) == 1 else "are"
    detail = f"{many(len(ahead), 'watermark')} {are} ahead of now, and nothing fires until then: {told}"
    return fault("watermarks", detail, f"`triggerctl catchup {ahead[0][0]} --rebase` sets it back")


def backlogs(occurrences: int, triggers: Sequence[TriggerKey | str], *, is_all: bool) -> Check:
    """Report the occurrences to catch up; without `is_all` the count is a lower bound (L-17)."""
    if not triggers:
        return ok("backlogs", "nothing waits to be caught up")
    number = many(occurrences, "occurrence") if is_all else f"more than {many(occurrences, 'occurrence')}"
    return ok("backlogs", f"{number} of {many(len(triggers), 'trigger')} to catch up: {named(triggers)}")


def holds(held: Sequence[ActiveHold]) -> Check:
    """Report the holds in force. A freeze is a warning; a blackout is not, since it ends by itself (S-13)."""
    if not held:
        return ok("holds", "no freeze or blackout is in force")
    detail = named(map(_holding, held))
    if all(one.kind != HoldKind.FREEZE for one in held):
        return ok("holds", detail)
    return warning("holds", detail, "`triggerctl unfreeze` lifts a freeze; `triggerctl blackout list` shows all")


def authors(orphans: Mapping[str, Sequence[TriggerKey]]) -> Check:
    """Active triggers whose authors may not start them any more: every occurrence is denied (X-15)."""
    if not orphans:
        return ok("authors", "every active trigger's author may start it")
    told = "; ".join(f"of {author}: {named(triggers)}" for author, triggers in sorted(orphans.items()))
    number = many(sum(map(len, orphans.values())), "active trigger")
    one = next(iter(sorted(orphans.items())))[1][0]
    hint = f"{TAKE_OVER}, or deactivate it; `triggerctl explain {one}` says what the author lacks"
    return warning("authors", f"{number} may not start for want of an author: {told}", hint)


def rate(asked: Mapping[TriggerKey | str, float], allowed: float) -> Check:
    """Compare the start rate of all active schedules with `execution_qps` (L-18)."""
    total = sum(asked.values())
    if not allowed:
        return ok("rate", f"the schedules ask for {per_second(total)} starts a second, and there is no limit")
    share = f"{total / allowed:.0%} of execution_qps ({allowed:g})"
    detail = f"the schedules ask for {per_second(total)} starts a second, {share}"
    if not is_too_much(total, allowed):
        return ok("rate", detail)
    most = sorted(asked.items(), key=lambda one: (-one[1], str(one[0])))[:HUNGRIEST]
    hungriest = ", ".join(f"{trigger} ({per_second(each)})" for trigger, each in most)
    hint = f"above {FULL:.0%} a burst makes starts late: raise execution_qps, or have them fire less often"
    return warning("rate", f"{detail}; most by {hungriest}", hint)


def queue(count: int, oldest: datetime | None, now: datetime) -> Check:
    """Report runs pending for long that no runner has claimed."""
    if not count or oldest is None:
        return ok("queue", f"no run waits for longer than {span(PATIENCE.total_seconds())}")
    waits = "has waited" if count == 1 else "have waited"
    detail = (
        f"{many(count, 'run')} {waits} for more than {span(PATIENCE.total_seconds())}, "
        f"the oldest for {span((now - oldest).total_seconds())}"
    )
    hint = "is a runner up? `triggerctl runs list --status running` shows what is worked on; see max_running, too"
    return warning("queue", detail, hint)


def approvals(count: int, oldest: datetime | None, now: datetime) -> Check:
    """Report runs that have long waited for an approval (X-14)."""
    most = f"{UNANSWERED.total_seconds() / 3600:.0f} h"
    if not count or oldest is None:
        return ok("approvals", f"no run waits for longer than {most} for an approval")
    waits = "has waited" if count == 1 else "have waited"
    waited = span((now - oldest).total_seconds())
    detail = f"{many(count, 'run')} {waits} for more than {most} for an approval, the oldest for {waited}"
    hint = "`triggerctl runs list --status parked` shows them; `runs approve` lets one begin, `runs cancel` rejects it"
    return warning("approvals", detail, hint)


def failures(at_limit: Sequence[TriggerKey | str], stopped: Sequence[TriggerKey | str]) -> Check:
    """Triggers whose runs failed as often in a row as they may: still to be deactivated, or lately deactivated."""
    told = []
    if at_limit:
        told.append(f"at the failure limit: {named(at_limit)}")
    if stopped:
        told.append(f"deactivated after failures within {span(LATELY.total_seconds())}: {named(stopped)}")
    return ok("failures", "; ".join(told) or f"no trigger was deactivated within {span(LATELY.total_seconds())}")


def deadlines(missed: Sequence[tuple[TriggerKey | str, datetime]]) -> Check:
    """Triggers that had not succeeded by a time that somebody expects, each with the latest one (X-16)."""
    lately = f"within {span(LATELY.total_seconds())}"
    if not missed:
        return ok("deadlines", f"none was missed {lately}")
    told = named(f"{trigger} at {_whole(due)}" for trigger, due in missed)
    detail = f"missed {lately} by {many(len(missed), 'trigger')}: {told}"
    return warning("deadlines", detail, f"`triggerctl explain {missed[0][0]}` says what became of it")


def budgets(near: Sequence[tuple[TriggerKey | str, float]]) -> Check:
    """Triggers that have spent nearly all they may, each with the share of it (X-08)."""
    if not near:
        return ok("budgets", f"no trigger has used more than {NEAR_END:.0%} of its budget")
    told = named(f"{trigger} ({share:.0%})" for trigger, share in near)
    return ok("budgets", f"more than {NEAR_END:.0%} is used by {many(len(near), 'trigger')}: {told}")


def per_second(rate: float) -> str:
    """A rate in few digits: `12`, `8.25`, `0.017`."""
    return f"{rate:.3g}"


def _holding(one: ActiveHold) -> str:
    ends = f"until {_whole(one.until)}" if one.until else "until it is lifted"
    return f"{one.kind} of {one.whom} {ends}, by {one.owner}: {one.reason}"


def _short(error: str) -> str:
    flat = " ".join(error.split())
    return flat if len(flat) <= LONGEST_ERROR else flat[:LONGEST_ERROR] + "…"


def _whole(at: datetime) -> str:
    return utc_text(at.replace(microsecond=0))

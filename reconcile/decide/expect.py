"""The `expect` block of a trigger: when a run is to have succeeded (X-16)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import time, timedelta
from typing import Any, Final

from reconcile.schedule.notation import ScheduleError, duration, shown
from revisions.outcomes import DeadlineKind

LONGEST: Final = timedelta(days=31)

_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d", re.ASCII)


@dataclass(frozen=True, slots=True)
class Expectation:
    """A success by a time of day, and one within a span after each occurrence."""

    success_by: time | None
    within: timedelta | None


def expectation(spec: Mapping[str, Any]) -> Expectation | None:
    """What a spec expects, None for nothing. Raises ScheduleError at `expect` or below it."""
    said = spec.get("expect")
    if said is None:
        return None
    if not said:
        raise ScheduleError("expect", "names nothing", 'write success_by: "09:30", or within: 2h, or both')
    by, within = said.get(DeadlineKind.SUCCESS_BY), said.get(DeadlineKind.WITHIN)
    if by is not None and not _TIME.fullmatch(by):
        raise ScheduleError("expect.success_by", f"{shown(by)} is not a time of day", 'write "09:30"')
    span = duration(within, "expect.within") if within is not None else None
    if span is not None and not timedelta(seconds=1) <= span <= LONGEST:
        raise ScheduleError("expect.within", f"{shown(within)} is not between 1s and 31d", "write a span such as 2h")
    return Expectation(time.fromisoformat(by) if by is not None else None, span)

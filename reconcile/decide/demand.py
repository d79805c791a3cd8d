"""How many starts a second the schedules ask for, against what the rate allows (L-18)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from reconcile.schedule.definition import Bounded, Every, Once, Schedule
from reconcile.schedule.fires import count

FULL: Final = 0.7
"""The share of the rate above which a burst is not made good any more."""
DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Demanded:
    """Starts a second: what the active schedules ask for, and what `execution_qps` allows, 0 being any number."""

    asked: float
    allowed: float

    @property
    def is_too_much(self) -> bool:
        return is_too_much(self.asked, self.allowed)


def per_second(schedule: Schedule, now: datetime) -> float:
    """Starts a second, as the mean of the day ahead."""
    beat = schedule.beat if isinstance(schedule, Bounded) else schedule
    match beat:
        case Once():
            return 0.0
        case Every(every) if schedule is beat:
            return 1 / every.total_seconds()
        case _:
            return count(schedule, now, now + DAY, int(DAY.total_seconds())) / DAY.total_seconds()


def is_too_much(asked: float, allowed: float) -> bool:
    """Whether the schedules ask for more than 70 % of the rate; 0 allows any."""
    return allowed > 0 and asked > FULL * allowed

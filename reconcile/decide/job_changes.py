"""Comparison of the scheduled jobs with the triggers in the database (L-01)."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobChanges:
    """Ids of the triggers whose jobs must be added, replaced or removed; false when all are empty."""

    added: tuple[str, ...]
    replaced: tuple[str, ...]
    removed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.replaced or self.removed)


def diff(desired: Mapping[str, int], jobs: Mapping[str, int]) -> JobChanges:
    """Compare the desired revision of each trigger with the revision of its job."""
    return JobChanges(
        added=tuple(trigger for trigger in desired if trigger not in jobs),
        replaced=tuple(trigger for trigger, revision in desired.items() if jobs.get(trigger, revision) != revision),
        removed=tuple(trigger for trigger in jobs if trigger not in desired),
    )

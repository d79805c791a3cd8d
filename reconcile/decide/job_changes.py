"""Which jobs must come, go or be replaced so that they are what the database says (L-01)."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobChanges:
    """Trigger ids by what must happen to their jobs; all empty when the world has not changed."""

    added: tuple[str, ...]
    replaced: tuple[str, ...]
    removed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.replaced or self.removed)


def diff(desired: Mapping[str, int], jobs: Mapping[str, int]) -> JobChanges:
    """Compares trigger → revision as it should be with trigger → revision of the jobs there are."""
    return JobChanges(
        added=tuple(trigger for trigger in desired if trigger not in jobs),
        replaced=tuple(trigger for trigger, revision in desired.items() if jobs.get(trigger, revision) != revision),
        removed=tuple(trigger for trigger in jobs if trigger not in desired),
    )

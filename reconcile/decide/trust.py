"""What a task is told about its input, and what it may do: pure (E-15)."""

from collections.abc import Iterator
from typing import Final

from revisions.outcomes import RunSource
from revisions.spec.trigger import TriggerSpec

TRUSTED: Final = frozenset({RunSource.SCHEDULE, RunSource.MANUAL, RunSource.BACKFILL})
"""Sources whose input people wrote who may deploy or fire: what stands in the trigger, or was given by hand."""


def is_untrusted(source: RunSource) -> bool:
    """Whether a run's input comes from outside: an event, a webhook, a file, a table, and whatever is not known."""
    return source not in TRUSTED


def warnings(spec: TriggerSpec) -> Iterator[str]:
    """What whoever deploys a spec is to know."""
    if spec.allow_destructive:
        yield (
            "spec.allow_destructive is on: its runs are told that they may destroy and overwrite, whoever caused them "
            "and whatever their input says; leave it out unless the task needs it"
        )

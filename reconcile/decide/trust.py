"""Trust in the input of a run, and in what its task may do (E-15)."""

from collections.abc import Iterator
from typing import Final

from revisions.outcomes import RunSource
from revisions.spec.trigger import TriggerSpec

TRUSTED: Final = frozenset({RunSource.SCHEDULE, RunSource.MANUAL, RunSource.BACKFILL})
"""Sources whose input people wrote who may deploy or fire: what stands in the trigger, or was given by hand."""


def is_untrusted(source: RunSource) -> bool:
    """Tell whether a run's input comes from outside: an event, a webhook, a file, a table, or an unknown source."""
    return source not in TRUSTED


def warnings(spec: TriggerSpec) -> Iterator[str]:
    """Warn whoever deploys a spec."""
    if spec.allow_destructive:
        yield (
            "spec.allow_destructive is on: its runs are told that they may destroy and overwrite, whoever caused them "
            "and whatever their input says; leave it out unless the task needs it"
        )

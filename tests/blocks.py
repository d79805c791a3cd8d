"""Blocks of specs as tests write them, read as a manifest's would be."""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from reconcile import plugins
from reconcile.schedule import definition
from reconcile.schedule.definition import Closed, Schedule
from revisions.errors import Fault, Invalid
from revisions.spec import reading
from revisions.spec.notation import ScheduleError
from revisions.spec.trigger import ScheduleSpec, TriggerSpec


def parse(written: dict[str, Any], at: datetime | None = None, calendars: Closed = ()) -> Schedule:
    """The schedule of a `schedule` block. Raises ScheduleError at the first field that is wrong."""
    faults: list[Fault] = []
    spec = reading.validated(ScheduleSpec, written, "", faults)
    if spec is None:
        raise ScheduleError(faults[0].path.removeprefix("."), faults[0].message, faults[0].hint)
    return definition.parse(spec, at, calendars)


def trigger_spec(**written: Any) -> TriggerSpec:
    """A trigger's spec, with what it must have. Raises ValidationError."""
    return reading.typed(TriggerSpec, {"task_version": "v1", "schedule": {"every": "1m"}} | written)


def block_of(kind: str, written: Any) -> Any:
    """A task's block, as its launcher reads it. Raises Invalid."""
    return plugins.launcher(kind).read(written)


def faults_of(kind: str, written: Any) -> list[Fault]:
    """What a launcher finds wrong with a block."""
    try:
        block_of(kind, written)
    except Invalid as error:
        return list(error.errors)
    return []


def written_block(block: Any) -> dict[str, Any]:
    """A block as it could have been written."""
    return {name: value for name, value in asdict(block).items() if value is not None}

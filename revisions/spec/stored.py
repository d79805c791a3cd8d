"""Reader of stored specs, the only one (R-10).

Revisions store and hash the canonical text; the typed object is parsed from it once and cached. A newer release may
have written fields that this one does not know (L-13). Decisions need the whole spec (`trigger_spec`); operations that
must work nevertheless, such as pausing or replacing a trigger, use the fields that can be read (`readable_trigger`).
"""

import json
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import ValidationError

from revisions.errors import Fault
from revisions.history.chain import canonical
from revisions.spec import reading, task
from revisions.spec.manifest import CalendarSpec
from revisions.spec.notation import instant
from revisions.spec.task import TaskSpec
from revisions.spec.trigger import AUTOMATIONS, TriggerSpec

Spec = TypeVar("Spec", TriggerSpec, TaskSpec, CalendarSpec)


class Unreadable(ValueError):
    """Stored spec that this release cannot read; the message names the field (L-13)."""


@lru_cache(maxsize=200_000)
def trigger_spec(text: str) -> TriggerSpec:
    """Return a trigger's spec. Raises Unreadable."""
    try:
        return reading.typed_json(TriggerSpec, text)
    except ValidationError:
        return _whole(TriggerSpec, _opened(text))


@lru_cache(maxsize=20_000)
def task_spec(text: str) -> TaskSpec:
    """Return a task version's spec. Raises Unreadable."""
    return _whole(TaskSpec, task.with_block(_opened(text)))


@lru_cache(maxsize=2_000)
def calendar_spec(text: str) -> CalendarSpec:
    """Return a calendar's spec. Raises Unreadable."""
    return _whole(CalendarSpec, _opened(text))


def readable_trigger(text: str) -> TriggerSpec:
    """Return a trigger's spec; fields that this release cannot read have their defaults.

    Raises Unreadable if the task version cannot be read either.
    """
    try:
        return trigger_spec(text)
    except Unreadable:
        return _readable(TriggerSpec, _opened(text) | {"schedule": dict(written_schedule(text))})


def readable_task(text: str) -> TaskSpec:
    """Return a task version's spec; fields that this release cannot read have their defaults.

    Raises Unreadable if the launcher cannot be read either.
    """
    try:
        return task_spec(text)
    except Unreadable:
        return _readable(TaskSpec, task.with_block(_opened(text)))


def same_timing(first: str, second: str) -> bool:
    """Return True if the `schedule` blocks of two specs have equal text, apart from `kickoff_time_input` (R-21).

    `60s` and `1m` differ, because a rewritten block counts as a new schedule.
    """
    return _timing(first) == _timing(second)


def automation(text: str) -> str:
    """Return the canonical text of those blocks of a spec that start runs (`AUTOMATIONS`)."""
    spec = written_spec(text)
    return canonical({kind: spec[kind] for kind in AUTOMATIONS if kind in spec})


def resolved_at(text: str) -> datetime | None:
    """Return the instant that a deploy computed from `in`, out of a revision's `resolved`; None without one (S-15)."""
    at: str | None = json.loads(text).get("at")
    return instant(at) if at else None


def written_schedule(text: str) -> Mapping[str, Any]:
    """Return the `schedule` block of a spec as it was written, for messages that quote it."""
    block = written_spec(text).get("schedule")
    return block if isinstance(block, dict) else {}


@lru_cache(maxsize=1_000)
def written_spec(text: str) -> Mapping[str, Any]:
    """Return a spec as it was written. The result is cached, so callers must not change it."""
    return _opened(text)


def _timing(text: str) -> dict[str, Any]:
    return {field: value for field, value in written_schedule(text).items() if field != "kickoff_time_input"}


def _opened(text: str) -> dict[str, Any]:
    try:
        written = json.loads(text)
    except ValueError as error:
        raise Unreadable(f"is no JSON: {error}") from None
    if not isinstance(written, dict):
        raise Unreadable("is no mapping")
    return written


def _whole(kind: type[Spec], written: dict[str, Any]) -> Spec:
    faults: list[Fault] = []
    spec = reading.validated(kind, written, "spec", faults)
    if spec is None:
        raise Unreadable(f"{faults[0].path}: {faults[0].message}")
    return spec


def _readable(kind: type[Spec], written: dict[str, Any]) -> Spec:
    """Remove the fields that cannot be read, and parse the rest. Raises Unreadable if a required one is missing."""
    while True:
        try:
            return reading.typed(kind, written)
        except ValidationError as error:
            paths = [details["loc"] for details in error.errors(include_url=False, include_context=False)]
            dropped = [path for path in paths if _drop(written, path)]
            if not dropped:
                raise Unreadable(f"has no {paths[0][-1]}") from None


def _drop(written: dict[str, Any], path: tuple[int | str, ...]) -> bool:
    """Remove the field at a path, or the list that contains it; return False if there is none."""
    holder, name = written, path[0]
    for part in path[1:]:
        below = holder.get(str(name))
        if not isinstance(below, dict) or part not in below:
            break
        holder, name = below, part
    return holder.pop(str(name), None) is not None

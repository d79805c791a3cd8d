"""Optimistic lock: compare what a caller expects of a trigger or calendar with what is there (R-04, R-05, S-13)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from revisions.errors import Fault, NotFound, PreconditionFailed, PreconditionRequired
from revisions.history.triggers import Trigger
from revisions.ids import CalendarKey, TriggerKey

_AS_NEW = "deploy it as new, without an expected revision"


class Revised(Protocol):
    """Trigger or calendar at its newest revision."""

    @property
    def key(self) -> TriggerKey | CalendarKey: ...

    @property
    def revision(self) -> int: ...

    @property
    def deleted(self) -> bool: ...

    @property
    def changed_by(self) -> str: ...

    @property
    def changed_at(self) -> datetime: ...


@dataclass(frozen=True, slots=True)
class Expected:
    """Condition of a change: nothing has the name (`absent`), or it stands at `revision`; with neither, none was given.

    Only what does not exist yet is changed without a condition.
    """

    revision: int | None = None
    absent: bool = False


def check_deploy(key: TriggerKey | CalendarKey, current: Revised | None, expected: Expected) -> None:
    """Check a deploy, for which a deleted object does not exist. Raises PreconditionFailed, PreconditionRequired."""
    if current is not None and not current.deleted:
        check_expected(current, expected)
    elif expected.revision is not None and current is not None:
        detail = f"{key} was deleted at revision {current.revision}"
        raise _failed(current, detail, [Fault(_kind(key), detail, _AS_NEW)])
    elif expected.revision is not None:
        detail = f"{key} does not exist, so it has no revision {expected.revision}"
        raise PreconditionFailed.hinted(_kind(key), detail, _AS_NEW)


def check_rollback(key: TriggerKey, current: Trigger | None, expected: Expected) -> None:
    """Check a rollback, which also undoes a deletion (R-22). Raises NotFound, PreconditionFailed and -Required."""
    if current is None:
        raise NotFound.trigger(key)
    if expected.revision is None:
        raise _required(current)
    check_revision(current, expected.revision)


def check_exists(key: TriggerKey, current: Trigger | None) -> Trigger:
    """Return the trigger. Raises NotFound for one that does not exist or is deleted."""
    if current is None:
        raise NotFound.trigger(key)
    if current.deleted:
        raise NotFound.deleted(key, current.revision)
    return current


def check_change(key: TriggerKey, current: Trigger | None, expected: Expected) -> Trigger:
    """Return the trigger that is to be changed. Raises NotFound, PreconditionFailed, PreconditionRequired."""
    current = check_exists(key, current)
    if expected.revision is None:
        raise _required(current)
    check_revision(current, expected.revision)
    return current


def check_expected(current: Revised, expected: Expected) -> None:
    """Check the condition on something that exists. Raises PreconditionFailed, PreconditionRequired."""
    if expected.revision is not None:
        check_revision(current, expected.revision)
    elif expected.absent:
        raise _failed(current, f"{current.key} exists already, at revision {current.revision}")
    else:
        raise _required(current)


def check_revision(current: Revised, expected: int) -> None:
    """Raise PreconditionFailed unless the newest revision is the expected one."""
    if current.revision != expected:
        raise _failed(current, f"{current.key} stands at revision {current.revision}, not {expected}")


def _required(current: Revised) -> PreconditionRequired:
    detail = f"{current.key} stands at revision {current.revision}: name the revision you read"
    return PreconditionRequired(detail, errors=_faults(current, detail))


def _failed(current: Revised, detail: str, errors: Sequence[Fault] = ()) -> PreconditionFailed:
    return PreconditionFailed(
        detail,
        errors=errors or _faults(current, detail),
        current_revision=current.revision,
        changed_by=current.changed_by,
        changed_at=current.changed_at,
    )


def _faults(current: Revised, detail: str) -> list[Fault]:
    """Return the fault that the answer for a calendar holds; the command line has its own hint for triggers."""
    if isinstance(current.key, TriggerKey):
        return []
    key, number = current.key, current.revision
    hint = f"see `triggerctl calendar show {key}`, then repeat with --expected-revision {number} if it still holds"
    return [Fault("calendar", detail, hint)]


def _kind(key: TriggerKey | CalendarKey) -> str:
    return "trigger" if isinstance(key, TriggerKey) else "calendar"

"""The optimistic lock: what a caller expects of a trigger against what is there (R-04, R-05)."""

from collections.abc import Sequence
from dataclasses import dataclass

from revisions.errors import Fault, NotFound, PreconditionFailed, PreconditionRequired
from revisions.history.triggers import Trigger
from revisions.ids import TriggerKey

_AS_NEW = "deploy it as new, without an expected revision"


@dataclass(frozen=True, slots=True)
class Expected:
    """What must be true: it does not exist (`absent`), or it stands at `revision`; neither when nothing was named."""

    revision: int | None = None
    absent: bool = False


def check_deploy(key: TriggerKey, current: Trigger | None, expected: Expected) -> None:
    """A deleted trigger does not exist for this. Raises PreconditionFailed, PreconditionRequired."""
    exists = current is not None and not current.deleted
    if expected.revision is not None:
        if current is None:
            detail = f"{key} does not exist, so it has no revision {expected.revision}"
            raise PreconditionFailed.hinted("trigger", detail, _AS_NEW)
        if current.deleted:
            detail = f"{key} was deleted at revision {current.revision}"
            raise _failed(current, detail, [Fault("trigger", detail, _AS_NEW)])
        check_revision(current, expected.revision)
    elif exists and current is not None:
        if expected.absent:
            raise _failed(current, f"{key} exists already, at revision {current.revision}")
        raise _required(current)


def check_rollback(key: TriggerKey, current: Trigger | None, expected: Expected) -> None:
    """A rollback undoes a deletion too (R-22). Raises NotFound, PreconditionFailed, PreconditionRequired."""
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


def check_revision(current: Trigger, expected: int) -> None:
    """Raises PreconditionFailed when the trigger stands elsewhere."""
    if current.revision != expected:
        raise _failed(current, f"{current.key} stands at revision {current.revision}, not {expected}")


def _required(current: Trigger) -> PreconditionRequired:
    return PreconditionRequired(f"{current.key} stands at revision {current.revision}: name the revision you read")


def _failed(current: Trigger, detail: str, errors: Sequence[Fault] = ()) -> PreconditionFailed:
    return PreconditionFailed(
        detail,
        errors=errors,
        current_revision=current.revision,
        changed_by=current.changed_by,
        changed_at=current.changed_at,
    )

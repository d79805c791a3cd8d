"""The optimistic lock: what a caller expects of a trigger against what is there (R-04, R-05)."""

from dataclasses import dataclass

from revisions.errors import NotFound, PreconditionFailed, PreconditionRequired
from revisions.ids import TriggerKey
from revisions.triggers import Trigger


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
            raise PreconditionFailed(f"{key} does not exist, so it has no revision {expected.revision}")
        if current.deleted:
            raise _failed(current, f"{key} is deleted, deploy it as new")
        check_revision(current, expected.revision)
    elif exists and current is not None:
        if expected.absent:
            raise _failed(current, f"{key} exists already, at revision {current.revision}")
        raise PreconditionRequired(f"{key} exists: name the revision you read (it stands at {current.revision})")


def check_rollback(key: TriggerKey, current: Trigger | None, expected: Expected) -> None:
    """A rollback undoes a deletion too (R-22). Raises NotFound, PreconditionFailed, PreconditionRequired."""
    if current is None:
        raise NotFound(f"there is no trigger {key}")
    if expected.revision is None:
        raise PreconditionRequired(f"name the revision you read ({key} stands at {current.revision})")
    check_revision(current, expected.revision)


def check_change(key: TriggerKey, current: Trigger | None, expected: Expected) -> Trigger:
    """For changes of what must exist. Raises NotFound, PreconditionFailed, PreconditionRequired."""
    if current is None:
        raise NotFound(f"there is no trigger {key}")
    if current.deleted:
        raise NotFound(f"{key} was deleted at revision {current.revision}; deploy it to bring it back")
    if expected.revision is None:
        raise PreconditionRequired(f"name the revision you read ({key} stands at {current.revision})")
    check_revision(current, expected.revision)
    return current


def check_revision(current: Trigger, expected: int) -> None:
    """Raises PreconditionFailed when the trigger stands elsewhere."""
    if current.revision != expected:
        raise _failed(current, f"{current.key} stands at revision {current.revision}, not {expected}")


def _failed(current: Trigger, detail: str) -> PreconditionFailed:
    return PreconditionFailed(
        f"{detail} (by {current.changed_by})",
        current_revision=current.revision,
        changed_by=current.changed_by,
        changed_at=current.changed_at,
    )

"""What can go wrong, as a tree; each error carries data and a stable `code`, the surfaces choose words and numbers.

TriggerctlError
├── Malformed             the text cannot be read at all (line and column where known)
├── Invalid               it can be read but says something wrong (a fault per field)
├── NotFound              no such trigger, task, run, revision
├── Conflict              the expected revision, or an existing thing, says no
│   └── PreconditionFailed    … and the caller had named that precondition
├── PreconditionRequired  an existing trigger was to be changed without naming a revision
├── Forbidden             this caller may not
└── Unavailable           the database or the server cannot be used now, or has another schema
"""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import ClassVar, Final, Self

MOST_FAULTS: Final = 50
"""What is told of one input: nobody reads more, and each costs time to find words for."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with an input: where (`spec.schedule.cron`), what, and the way out."""

    path: str
    message: str
    hint: str = ""

    @classmethod
    def unknown(cls, path: str, name: str, known: Iterable[str], what: str = "field") -> "Fault":
        """A name that is not known, with the nearest one that is (R-18)."""
        names = sorted(known)
        near = difflib.get_close_matches(name, names, 1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(names)}"
        return cls(path or '""', f"is not a known {what}", hint)


def few(faults: Iterable[Fault]) -> list[Fault]:
    """As many faults as are told; those after them are not even looked for."""
    return list(islice(faults, MOST_FAULTS))


class TriggerctlError(Exception):
    """Base of every error a caller can act on."""

    code: ClassVar[str] = "error"

    def __init__(self, detail: str, errors: Sequence[Fault] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = tuple(errors)

    @classmethod
    def hinted(cls, path: str, detail: str, hint: str) -> Self:
        """One fault, which is the detail, with the way out of it."""
        return cls(detail, errors=[Fault(path, detail, hint)])


class Malformed(TriggerctlError):
    code = "malformed"


class Invalid(TriggerctlError):
    code = "invalid"

    @classmethod
    def at(cls, path: str, message: str, hint: str = "") -> "Invalid":
        """One fault, which is then the detail too."""
        return cls(f"{path}: {message}", [Fault(path, message, hint)])


class NotFound(TriggerctlError):
    code = "not_found"

    @classmethod
    def trigger(cls, key: object) -> Self:
        """A name that no trigger ever had."""
        return cls.hinted("trigger", f"there is no trigger {key}", "`triggerctl list` shows what there is")

    @classmethod
    def run(cls, run_id: str) -> Self:
        """An id that no run has."""
        return cls.hinted("run", f"there is no run {run_id}", "`triggerctl runs list` shows what there is")

    @classmethod
    def deleted(cls, key: object, revision: int) -> Self:
        """A trigger that is there no more, and can be again."""
        way = "deploy it again, or roll it back, and it goes on with its history"
        return cls.hinted("trigger", f"{key} was deleted at revision {revision}", way)

    @classmethod
    def revision(cls, key: object, revision: int, newest: int) -> Self:
        """A number that the history does not have."""
        detail = f"{key} has no revision {revision}; the newest is {newest}"
        return cls.hinted("revision", detail, f"`triggerctl history {key}` shows them")


class Conflict(TriggerctlError):
    """Somebody or something was there first; where a revision decided, it says which, whose and since when (R-04)."""

    code = "conflict"

    def __init__(
        self,
        detail: str,
        *,
        current_revision: int | None = None,
        changed_by: str | None = None,
        changed_at: datetime | None = None,
        errors: Sequence[Fault] = (),
    ) -> None:
        super().__init__(detail, errors)
        self.current_revision = current_revision
        self.changed_by = changed_by
        self.changed_at = changed_at


class PreconditionFailed(Conflict):
    """A conflict with the precondition the caller itself named (HTTP 412 instead of 409)."""


class PreconditionRequired(TriggerctlError):
    code = "precondition_required"


class Forbidden(TriggerctlError):
    code = "forbidden"


class Unavailable(TriggerctlError):
    code = "unavailable"

"""Errors that a caller can act on, with a stable `code` and a list of faults.

The API turns a code into an HTTP status, the command line into an exit status.

TriggerctlError
├── Malformed             the text is not valid YAML or JSON (line and column where known)
├── Invalid               the document or a parameter has wrong values (one fault per field)
├── NotFound              the trigger, task, run or revision does not exist
├── Conflict              the current revision is not the expected one, or the name is in use
│   └── PreconditionFailed    the same, for a precondition that the caller sent
├── PreconditionRequired  a change of an existing trigger needs an expected revision
├── Forbidden             the caller lacks the right
└── Unavailable           the database or the server cannot be used now, or the schema does not fit this release
"""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import ClassVar, Final, Self

MOST_FAULTS: Final = 50
"""Most faults reported for one input."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of an input: its path (`spec.schedule.cron`), a message and a hint."""

    path: str
    message: str
    hint: str = ""

    @classmethod
    def unknown(cls, path: str, name: str, known: Iterable[str], what: str = "field") -> "Fault":
        """Return the fault of an unknown name, with the nearest known one as hint (R-18)."""
        names = sorted(known)
        near = difflib.get_close_matches(name, names, 1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(names)}"
        return cls(path or '""', f"is not a known {what}", hint)


def few(faults: Iterable[Fault]) -> list[Fault]:
    """Return at most `MOST_FAULTS` faults; those after them are not computed."""
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
        """Return an error whose detail is its only fault, with a hint."""
        return cls(detail, errors=[Fault(path, detail, hint)])


class Malformed(TriggerctlError):
    code = "malformed"


class Invalid(TriggerctlError):
    code = "invalid"

    @classmethod
    def at(cls, path: str, message: str, hint: str = "") -> "Invalid":
        """Return an error with one fault, which is also its detail."""
        return cls(f"{path}: {message}", [Fault(path, message, hint)])


class NotFound(TriggerctlError):
    code = "not_found"

    @classmethod
    def trigger(cls, key: object) -> Self:
        """Return the error for a name that no trigger ever had."""
        return cls.hinted("trigger", f"there is no trigger {key}", "`triggerctl list` shows what there is")

    @classmethod
    def run(cls, run_id: str) -> Self:
        """Return the error for an id that no run has."""
        return cls.hinted("run", f"there is no run {run_id}", "`triggerctl runs list` shows what there is")

    @classmethod
    def deleted(cls, key: object, revision: int) -> Self:
        """Return the error for a deleted trigger, which can be deployed again."""
        way = "deploy it again, or roll it back, and it goes on with its history"
        return cls.hinted("trigger", f"{key} was deleted at revision {revision}", way)

    @classmethod
    def revision(cls, key: object, revision: int, newest: int) -> Self:
        """Return the error for a revision that the history does not have."""
        detail = f"{key} has no revision {revision}; the newest is {newest}"
        return cls.hinted("revision", detail, f"`triggerctl history {key}` shows them")


class Conflict(TriggerctlError):
    """Conflict with an existing revision or thing; says which revision, by whom and when (R-04)."""

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
    """Conflict with a precondition that the caller named (HTTP 412 instead of 409)."""


class PreconditionRequired(TriggerctlError):
    code = "precondition_required"


class Forbidden(TriggerctlError):
    code = "forbidden"


class Unavailable(TriggerctlError):
    code = "unavailable"

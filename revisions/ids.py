"""Names of things: fresh sortable ids, and the key people use for a trigger."""

import re
from datetime import UTC, datetime
from typing import NamedTuple, Self

from ulid import ULID

from revisions.errors import Fault, Invalid

NAME = re.compile(r"[a-z0-9](?:[-a-z0-9_.]{0,61}[a-z0-9])?")
TASK_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
SECRET = re.compile(r"(?=.{1,128}\Z)[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*")
"""No `__`, which stands between a scope and a name."""
ID = re.compile(r"[0-9A-Za-z]{26}")
VERSION = re.compile(r"[A-Za-z0-9._+-]{1,128}")


def fresh(now: datetime) -> str:
    """A new ULID that sorts by `now`."""
    return str(ULID.from_datetime(now))


def is_id(text: str) -> bool:
    """Whether a text has the form of what `fresh` makes, in letters of either case."""
    return ID.fullmatch(text) is not None


def floor(at: datetime) -> str:
    """Below every id that was made at `at` or later, and above those of the milliseconds before."""
    return fresh(at)[:10].ljust(26, "0")


class TriggerKey(NamedTuple):
    """project/domain/task/name, the way people and the API name a trigger (R-01)."""

    project: str
    domain: str
    task: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads `project/domain/task/name`. Raises Invalid when it has other parts."""
        parts = text.split("/")
        if len(parts) != 4:
            raise Invalid.at("trigger", f"{text!r} is not project/domain/task/name", "write all four, joined by /")
        return cls(*parts)

    def __str__(self) -> str:
        return "/".join(self)


class TaskKey(NamedTuple):
    """One immutable version of a task."""

    project: str
    domain: str
    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.project}/{self.domain}/{self.name}@{self.version}"


class CalendarKey(NamedTuple):
    """A calendar of a project."""

    project: str
    name: str

    def __str__(self) -> str:
        return f"{self.project}/{self.name}"


def name_faults(path: str, **names: str) -> list[Fault]:
    """Faults of names given as project=, domain=, name=, task=, version= or secret=; no case is folded (R-01)."""
    faults = []
    for field, text in names.items():
        if field == "version":
            pattern, rule = VERSION, "1 to 128 of letters, digits and . _ + -"
        elif field == "secret":
            pattern, rule = SECRET, "1 to 128 of letters and digits, a letter first, and single _ between"
        elif field == "task":
            pattern, rule = TASK_NAME, "1 to 63 of letters, digits and - _ . between"
        else:
            pattern, rule = NAME, "1 to 63 of lower-case letters, digits and - _ . between"
        if not pattern.fullmatch(text):
            faults.append(Fault(f"{path}{field}", f"{text!r} is not a valid {field}", rule))
    return faults


def utc_text(at: datetime) -> str:
    """RFC 3339 with Z; no fraction when it is zero."""
    at = at.astimezone(UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%S") + (f".{at.microsecond:06d}".rstrip("0") if at.microsecond else "") + "Z"

"""Identifiers: sortable ids, and the keys of triggers, tasks and calendars."""

import re
from datetime import UTC, datetime
from typing import NamedTuple, Self

from ulid import ULID

from revisions.errors import Fault, Invalid

NAME = re.compile(r"[a-z0-9](?:[-a-z0-9_.]{0,61}[a-z0-9])?")
TASK_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
SECRET = re.compile(r"(?=.{1,128}\Z)[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*")
"""`__` separates a scope from a name, so a name has none."""
ID = re.compile(r"[0-9A-Za-z]{26}")
VERSION = re.compile(r"[A-Za-z0-9._+-]{1,128}")


def fresh(now: datetime) -> str:
    """Return a new ULID that sorts by `now`."""
    return str(ULID.from_datetime(now))


def is_id(text: str) -> bool:
    """Return True for text in the form of a ULID, in upper or lower case."""
    return ID.fullmatch(text) is not None


def floor(at: datetime) -> str:
    """Return the lower bound of the ids made at `at` or later; ids of earlier milliseconds are below it."""
    return fresh(at)[:10].ljust(26, "0")


class TriggerKey(NamedTuple):
    """Name of a trigger: project/domain/task/name (R-01)."""

    project: str
    domain: str
    task: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `project/domain/task/name`. Raises Invalid for another number of parts."""
        parts = text.split("/")
        if len(parts) != 4:
            raise Invalid.at("trigger", f"{text!r} is not project/domain/task/name", "write all four, joined by /")
        return cls(*parts)

    def __str__(self) -> str:
        return "/".join(self)


class TaskKey(NamedTuple):
    """Name of an immutable task version."""

    project: str
    domain: str
    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.project}/{self.domain}/{self.name}@{self.version}"


class CalendarKey(NamedTuple):
    """Name of a calendar in a project."""

    project: str
    name: str

    def __str__(self) -> str:
        return f"{self.project}/{self.name}"


def name_faults(path: str, **names: str) -> list[Fault]:
    """Return the faults of names given as project=, domain=, name=, task=, version= or secret= (R-01).

    Case is significant.
    """
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
    """Return RFC 3339 text with Z, without a fraction when it is zero."""
    at = at.astimezone(UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%S") + (f".{at.microsecond:06d}".rstrip("0") if at.microsecond else "") + "Z"

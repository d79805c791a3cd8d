"""Judging a task's own block by hand: what the launchers' `faults` have in common."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

from revisions.errors import Fault


def unknown_fields(block: Mapping[str, Any], known: Iterable[str]) -> Iterator[Fault]:
    """Every field that is not known (R-18)."""
    names = list(known)
    return (Fault.unknown(str(name), str(name), names) for name in block if name not in names)


def text_faults(path: str, value: Any, *, empty: bool = True) -> Iterator[Fault]:
    """What keeps a value from being handed to the operating system as text; with `empty=False` "" is wrong too."""
    if not isinstance(value, str):
        quoted = "quote it, so that it stays as written" if isinstance(value, int | float) else "write text"
        yield Fault(path, f"{value!r} is not a string", quoted)
    elif "\0" in value:
        yield Fault(path, "holds a NUL character", "remove it")
    elif not value and not empty:
        yield Fault(path, "is empty", "write something or leave it out")


def folder_faults(path: str, value: Any) -> Iterator[Fault]:
    """What keeps a value from being a folder below TASK_ROOT."""
    yield from (wrong := list(text_faults(path, value, empty=False)))
    if not wrong and PurePath(value).is_absolute():
        yield Fault(
            path, "is an absolute path", "write it relative to TASK_ROOT, so that it means the same on every machine"
        )

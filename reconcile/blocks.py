"""Judging a task's own block by hand: what the launchers' `faults` have in common."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

Finding = tuple[str, str, str]
"""(path below the block, message, hint), as `Launcher.faults` answers them."""


def unknown_fields(block: Mapping[str, Any], known: Iterable[str]) -> Iterator[Finding]:
    """Every field that is not known, with the nearest that is (R-18)."""
    names = list(known)
    for name in block:
        if name not in names:
            near = difflib.get_close_matches(str(name), names, 1)
            yield (
                str(name),
                "is not a known field",
                f"did you mean {near[0]}?" if near else f"known are {', '.join(names)}",
            )


def text_findings(path: str, value: Any, *, empty: bool = True) -> Iterator[Finding]:
    """What keeps a value from being handed to the operating system as text; with `empty=False` "" is wrong too."""
    if not isinstance(value, str):
        quoted = "quote it, so that it stays as written" if isinstance(value, int | float) else "write text"
        yield path, f"{value!r} is not a string", quoted
    elif "\0" in value:
        yield path, "holds a NUL character", "remove it"
    elif not value and not empty:
        yield path, "is empty", "write something or leave it out"


def folder_findings(path: str, value: Any) -> Iterator[Finding]:
    """What keeps a value from being a folder below TASK_ROOT."""
    yield from (wrong := list(text_findings(path, value, empty=False)))
    if not wrong and PurePath(value).is_absolute():
        yield path, "is an absolute path", "write it relative to TASK_ROOT, so that it means the same on every machine"

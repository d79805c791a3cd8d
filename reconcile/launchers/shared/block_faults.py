"""Checks of a task's block that several launchers need. Each yields the faults it finds, with paths from the block."""

import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import PurePath
from typing import Any

from revisions.errors import Fault, Invalid, few

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Names of variables that every shell passes on; some drop all others."""


def refuse(faults: Iterable[Fault]) -> None:
    """Raise Invalid if there are faults."""
    if listed := few(faults):
        raise Invalid(f"{listed[0].path}: {listed[0].message}", listed)


def unknown_fields(block: Mapping[str, Any], known: Iterable[str]) -> Iterator[Fault]:
    """Yield a fault for each unknown field (R-18)."""
    names = list(known)
    return (Fault.unknown(str(name), str(name), names) for name in block if name not in names)


def text_faults(path: str, value: Any, *, empty: bool = True) -> Iterator[Fault]:
    """Yield the fault of a value that is no text the operating system accepts; `empty=False` also refuses ""."""
    if not isinstance(value, str):
        quoted = "quote it, so that it stays as written" if isinstance(value, int | float) else "write text"
        yield Fault(path, f"{value!r} is not a string", quoted)
    elif "\0" in value:
        yield Fault(path, "holds a NUL character", "remove it")
    elif not value and not empty:
        yield Fault(path, "is empty", "write something or leave it out")


def folder_faults(path: str, value: Any) -> Iterator[Fault]:
    """Yield the fault of a value that is no folder relative to TASK_ROOT."""
    yield from (faults := list(text_faults(path, value, empty=False)))
    if not faults and PurePath(value).is_absolute():
        yield Fault(
            path, "is an absolute path", "write it relative to TASK_ROOT, so that it means the same on every machine"
        )


def env_faults(env: Any) -> Iterator[Fault]:
    """Yield the faults of a task's `env`."""
    if not isinstance(env, Mapping):
        yield Fault("env", "must be a mapping", "write env: {NAME: text}")
        return
    for name, value in env.items():
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            yield Fault(f"env.{name}", "is not a name of a variable", "letters, digits and _, no digit first")
        else:
            yield from text_faults(f"env.{name}", value)


def texts_faults(path: str, value: Any) -> Iterator[Fault]:
    """Yield the faults of a list of texts."""
    if not isinstance(value, list):
        yield Fault(path, "must be a list", f"write {path}: [text]")
        return
    for index, text in enumerate(value):
        yield from text_faults(f"{path}[{index}]", text)


def pairs_faults(path: str, value: Any, *, names: str = "NAME") -> Iterator[Fault]:
    """Yield the faults of a mapping of texts to texts; `names` is an example of a key, for the hint."""
    if not isinstance(value, Mapping):
        yield Fault(path, "must be a mapping", f"write {path}: {{{names}: text}}")
        return
    for name, text in value.items():
        yield from text_faults(f"{path}.{name}", name, empty=False)
        yield from text_faults(f"{path}.{name}", text)


def extra_faults(extra: str, *modules: str) -> Iterator[Fault]:
    """Yield a fault if the packages of an extra are not installed."""
    if missing := [module for module in modules if find_spec(module) is None]:
        yield Fault("", f"needs {', '.join(missing)}, not installed here", f"pip install 'triggerctl[{extra}]'")

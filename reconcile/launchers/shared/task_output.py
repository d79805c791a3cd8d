"""Reading the result of a task: its output document, its exit code, the last line of its log."""

import errno
import json
import math
import os
import signal
from pathlib import Path
from typing import Any

from reconcile.launchers.shared import attempt_folder
from revisions.errors import Invalid
from revisions.spec import documents

LARGEST_OUTPUT = 1024 * 1024
"""Limit of an output, bytes. Larger results belong into a store of their own, with a reference in the output."""

LONGEST_LAST_LINE = 300
"""Characters. A longer line is not a message for people and is left out."""

_TAIL = 4096
"""Bytes at the end of a log that are searched for its last line."""

_OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors of the controller that say nothing about the task; reading again later may succeed (invariant 10)."""


class BadOutput(Exception):
    """The task's output cannot be used; the text is the reason."""


def describe_exit_code(code: int) -> str:
    """Return an exit code in words. 128 + n is how `sh` reports a command that was killed by signal n."""
    try:
        return f"killed by {signal.Signals(code - 128).name}"
    except ValueError:
        return f"exited with code {code}"


def read_output(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file, None if there is no file. Raises BadOutput."""
    try:
        with attempt_folder.opened(path) as file:
            text = file.read(LARGEST_OUTPUT + 1)
    except FileNotFoundError:
        return None
    except attempt_folder.NotRegular:
        raise BadOutput("output is not a regular file") from None
    except OSError as error:
        if error.errno in _OUT_OF_RESOURCES:
            raise
        raise BadOutput(f"output cannot be read: {error.strerror}") from None
    return parse_output(text)


def parse_output(text: bytes) -> dict[str, Any]:
    """Return the JSON object in a text. Raises BadOutput, also for numbers that JSON cannot carry exactly (R-18)."""
    if len(text) > LARGEST_OUTPUT:
        raise BadOutput(f"output is larger than {LARGEST_OUTPUT} bytes")
    try:
        value = json.loads(text.decode(), parse_constant=_refuse_constant, parse_float=_parse_finite)
    except (ValueError, RecursionError) as error:
        raise BadOutput(f"output is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadOutput(f"output is not a JSON object but {type(value).__name__}")
    try:
        documents.check(value, "output")
    except Invalid as error:
        raise BadOutput(error.detail) from None
    return value


def _refuse_constant(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def _parse_finite(literal: str) -> float:
    number = float(literal)
    return number if math.isfinite(number) else _refuse_constant(literal)


def last_line(path: Path) -> str:
    """Return the last line of a log that is not blank, without control characters; "" if none or too long."""
    try:
        with attempt_folder.opened(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL))
            lines = file.read().decode(errors="replace").splitlines()
    except (FileNotFoundError, attempt_folder.NotRegular):
        return ""
    printable = ("".join(filter(str.isprintable, line)).strip() for line in reversed(lines))
    line = next(filter(None, printable), "")
    return line if len(line) <= LONGEST_LAST_LINE else ""

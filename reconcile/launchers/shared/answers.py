"""What an ended child process said: its exit code in words, the document it answered, its last words."""

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
"""Bytes; what is longer belongs into a store of its own, with a reference in the output."""

LONGEST_LAST_LINE = 300
"""Characters; a longer line is not a message and is left out."""

_TAIL = 4096
_OURS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # say nothing about the task; the next look may succeed


class BadOutput(Exception):
    """The task wrote something that is not an output; the text says what."""


def exit_words(code: int) -> str:
    """An exit code as `sh` reports it: 128 + n stands for a child that signal n killed."""
    try:
        return f"killed by {signal.Signals(code - 128).name}"
    except ValueError:
        return f"exited with code {code}"


def read_output(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file, None when there is no file. Raises BadOutput."""
    try:
        with attempt_folder.opened(path) as file:
            text = file.read(LARGEST_OUTPUT + 1)
    except FileNotFoundError:
        return None
    except attempt_folder.NotRegular:
        raise BadOutput("output is not a regular file") from None
    except OSError as error:
        if error.errno in _OURS:
            raise
        raise BadOutput(f"output cannot be read: {error.strerror}") from None
    if len(text) > LARGEST_OUTPUT:
        raise BadOutput(f"output is larger than {LARGEST_OUTPUT} bytes")
    return parse_output(text)


def parse_output(text: bytes) -> dict[str, Any]:
    """The JSON object in a text. Raises BadOutput, also for what JSON cannot carry exactly (R-18)."""
    try:
        value = json.loads(text.decode(), parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise BadOutput(f"output is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadOutput(f"output is not a JSON object but {type(value).__name__}")
    try:
        documents.check(value, "output")
    except Invalid as error:
        raise BadOutput(error.detail) from None
    return value


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def _finite(literal: str) -> float:
    number = float(literal)
    return number if math.isfinite(number) else _refuse(literal)


def last_line(path: Path) -> str:
    """The last line of a log that says something, without control characters; "" when there is none or it is long."""
    try:
        with attempt_folder.opened(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL))
            lines = file.read().decode(errors="replace").splitlines()
    except (FileNotFoundError, attempt_folder.NotRegular):
        return ""
    said = ("".join(filter(str.isprintable, line)).strip() for line in reversed(lines))
    line = next(filter(None, said), "")
    return line if len(line) <= LONGEST_LAST_LINE else ""

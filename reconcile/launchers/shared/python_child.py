"""What runs in the child process of a `python` task: the callable, between its input and its output.

Run by path, so that the child needs nothing installed and nothing in its environment; standard library only, and
little of that, for this is paid at every start (`typing` and `traceback` alone would be half of it).
"""

import json
import os
import sys
from importlib import import_module


def call(name: str) -> object:
    """What the callable `pkg.mod:func` answers to the document on standard input."""
    module, _, attribute = name.partition(":")
    document = json.load(sys.stdin.buffer)
    found = import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    return found(document)  # type: ignore[operator]  # whatever it turns out to be


def answer(name: str, output: object) -> None:
    """Writes a dict as the task's output; None leaves what the callable may have written itself. Raises TypeError."""
    if output is None:
        return
    if not isinstance(output, dict):
        raise TypeError(f"{name} returned {type(output).__name__}, not a dict")
    text = json.dumps(output, allow_nan=False)
    with open(os.environ["TRIGGERCTL_OUTPUT"], "w", encoding="utf-8") as file:
        file.write(text)


def complain(error: Exception) -> None:
    """Ends the log with the traceback, from the task's own code on."""
    import traceback

    frames = error.__traceback__
    while frames and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    sys.stdout.flush()
    traceback.print_exception(error.with_traceback(frames))


def main(name: str, folders: list[str]) -> int:
    """The exit code: 1 after an exception; the callable's own `sys.exit` passes."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # the log is followed while it grows
    sys.path[:0] = folders
    sys.argv = [name]
    try:
        answer(name, call(name))
    except Exception as error:  # noqa: BLE001 - whatever a task raises is its answer
        complain(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))

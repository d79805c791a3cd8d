"""The program of a `python` task's child process: reads the input, calls the callable, writes the output.

It is run by its path, so that the child process needs no installed package and no environment variable. It imports
little, because every start pays for it: `typing` and `traceback` alone would double the time.
"""

import json
import os
import sys
from importlib import import_module


def call(name: str) -> object:
    """Call `pkg.mod:func` with the document on standard input and return its result."""
    module, _, attribute = name.partition(":")
    document = json.load(sys.stdin.buffer)
    target = import_module(module)
    for part in attribute.split("."):
        target = getattr(target, part)
    return target(document)  # type: ignore[operator]  # not known to be callable


def write_output(name: str, output: object) -> None:
    """Write a dict as the task's output. Raises TypeError.

    None writes nothing: the callable may have written the file itself.
    """
    if output is None:
        return
    if not isinstance(output, dict):
        raise TypeError(f"{name} returned {type(output).__name__}, not a dict")
    text = json.dumps(output, allow_nan=False)
    with open(os.environ["TRIGGERCTL_OUTPUT"], "w", encoding="utf-8") as file:
        file.write(text)


def print_traceback(error: Exception) -> None:
    """Print the traceback at the end of the log, without the frames of this file."""
    import traceback

    frames = error.__traceback__
    while frames and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    sys.stdout.flush()
    traceback.print_exception(error.with_traceback(frames))


def main(name: str, folders: list[str]) -> int:
    """Run the callable and return the exit code: 1 after an exception. Its own `sys.exit` takes effect."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # the log is read while it grows
    sys.path[:0] = folders
    sys.argv = [name]
    try:
        write_output(name, call(name))
    except Exception as error:  # noqa: BLE001 - whatever a task raises is its failure
        print_traceback(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))

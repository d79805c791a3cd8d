"""Files that people write, and names that they type."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from controller.cli.client import Refused
from revisions.errors import Fault, Invalid, Malformed
from revisions.ids import TaskKey, TriggerKey, is_id, name_faults
from revisions.spec import documents


def text(name: str) -> str:
    """What stands in a file, `-` being standard input. Raises Invalid when it cannot be read, and Malformed."""
    shown = called(name)
    try:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return content.decode("utf-8-sig")
    except OSError as error:
        raise Invalid.at(shown, f"cannot be read: {error.strerror}", "name a file that can") from None
    except UnicodeDecodeError as error:
        raise Malformed(f"{shown}: is not UTF-8, byte {error.start}") from None


def read(name: str) -> list[Any]:
    """The documents of a file, `-` being standard input. Raises Invalid when it cannot be read, and Malformed."""
    shown = called(name)
    found = documents.load(text(name), shown)
    for document in found:
        with about(shown):
            documents.check(document)
    return found


def called(name: str) -> str:
    """The file as people call it."""
    return "standard input" if name == "-" else name


def one(name: str, kind: str, instead: str) -> Any:
    """The one document of a file, of that kind; `instead` says where others go. Raises Invalid."""
    found = read(name)
    others = {kind_of(document) for document in found} - {kind}
    if len(found) == 1 and not others:
        return found[0]
    holds = ", ".join(kind_of(document) for document in found) or "nothing"
    raise Invalid.at(
        called(name), f"holds {holds}; one {kind} is taken", instead if others else "write a file for each"
    )


def kind_of(document: Any) -> str:
    """Its kind as text, whatever it is."""
    return str(document.get("kind")) if isinstance(document, dict) else "no manifest"


@contextmanager
def about(source: str) -> Iterator[None]:
    """What is refused inside is said to be in that file."""
    try:
        yield
    except Invalid as error:
        raise Invalid(f"{source}: {error.detail}", _placed(source, error.errors)) from None
    except Refused as error:
        if error.problem["code"] == "invalid":
            faults = [{**fault, "path": f"{source}: {fault['path']}"} for fault in error.problem["errors"]]
            raise Refused(
                {**error.problem, "detail": f"{source}: {error.problem['detail']}", "errors": faults}
            ) from None
        raise


def trigger_path(text: str) -> str:
    """The path of `project/domain/task/name`. Raises Invalid for what can be no name."""
    key = TriggerKey.parse(text)
    _refuse(name_faults("", **key._asdict()))
    return _path("/triggers", *key)


def task_path(text: str) -> str:
    """The path of `project/domain/name@version` (or with a slash). Raises Invalid for what can be none."""
    parts = text.replace("@", "/", 1).split("/")
    if len(parts) != 4:
        raise Invalid.at("task", f"{text!r} is not project/domain/name@version", "write all four")
    return task_key_path(TaskKey(*parts))


def task_key_path(key: TaskKey) -> str:
    _refuse(name_faults("", project=key.project, domain=key.domain, task=key.name, version=key.version))
    return _path("/tasks", *key)


def calendar_path(text: str) -> str:
    """The path of `project/name`. Raises Invalid for what can be none."""
    parts = text.split("/")
    if len(parts) != 2:
        raise Invalid.at("calendar", f"{text!r} is not project/name", "write both, joined by /")
    _refuse(name_faults("", project=parts[0], name=parts[1]))
    return _path("/calendars", *parts)


def blackout_path(text: str) -> str:
    """The path of a blackout's id. Raises Invalid for what can be none."""
    if not is_id(text):
        raise Invalid.at("blackout", f"{text!r} is not a blackout's id", "`triggerctl blackout list` shows them")
    return _path("/blackouts", text.upper())


def run_path(text: str) -> str:
    """The path of a run's id. Raises Invalid for what can be none."""
    if not is_id(text):
        raise Invalid.at("run", f"{text!r} is not a run's id", "`triggerctl runs list` shows them")
    return _path("/runs", text.upper())


def token_path(text: str) -> str:
    """The path of a token's id. Raises Invalid for what can be none."""
    if not is_id(text):
        raise Invalid.at("token", f"{text!r} is not a token's id", "`triggerctl token list` shows them")
    return _path("/tokens", text.upper())


def _path(*parts: str) -> str:
    return "/".join([parts[0], *(quote(part, safe="") for part in parts[1:])])


def _placed(source: str, faults: tuple[Fault, ...]) -> list[Fault]:
    return [Fault(f"{source}: {fault.path}", fault.message, fault.hint) for fault in faults]


def _refuse(faults: list[Fault]) -> None:
    if faults:
        raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)

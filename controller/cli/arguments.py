"""Arguments of commands: files of documents, and names of resources, which become API paths."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from controller.cli.client import ApiError
from revisions.errors import Fault, Invalid, Malformed
from revisions.ids import TaskKey, TriggerKey, is_id, name_faults
from revisions.spec import documents


def read_text(name: str) -> str:
    """Return the text of a file, `-` being standard input. Raises Invalid if unreadable, Malformed if not UTF-8."""
    try:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return content.decode("utf-8-sig")
    except OSError as error:
        raise Invalid.at(display_name(name), f"cannot be read: {error.strerror}", "name a file that can") from None
    except UnicodeDecodeError as error:
        raise Malformed(f"{display_name(name)}: is not UTF-8, byte {error.start}") from None


def read_documents(name: str) -> list[Any]:
    """Return the YAML or JSON documents of a file. Raises Invalid and Malformed, as `read_text`."""
    source = display_name(name)
    loaded = documents.load(read_text(name), source)
    for document in loaded:
        with errors_name_file(source):
            documents.check(document)
    return loaded


def read_manifest(name: str, kind: str, hint_for_others: str) -> Any:
    """Return the only document of a file, which must be of that kind. Raises Invalid."""
    loaded = read_documents(name)
    others = {kind_of(document) for document in loaded} - {kind}
    if len(loaded) == 1 and not others:
        return loaded[0]
    kinds = ", ".join(kind_of(document) for document in loaded) or "nothing"
    hint = hint_for_others if others else "write a file for each"
    raise Invalid.at(display_name(name), f"holds {kinds}; one {kind} is taken", hint)


def display_name(name: str) -> str:
    """Return the name of a file as messages show it."""
    return "standard input" if name == "-" else name


def kind_of(document: Any) -> str:
    """Return a document's kind for messages; any value will do."""
    return str(document.get("kind")) if isinstance(document, dict) else "no manifest"


@contextmanager
def errors_name_file(source: str) -> Iterator[None]:
    """Add the file's name to the message and the paths of every `invalid` error raised inside."""
    try:
        yield
    except Invalid as error:
        faults = [Fault(f"{source}: {fault.path}", fault.message, fault.hint) for fault in error.errors]
        raise Invalid(f"{source}: {error.detail}", faults) from None
    except ApiError as error:
        if error.problem["code"] != "invalid":
            raise
        problem_faults = [{**fault, "path": f"{source}: {fault['path']}"} for fault in error.problem["errors"]]
        detail = f"{source}: {error.problem['detail']}"
        raise ApiError({**error.problem, "detail": detail, "errors": problem_faults}) from None


def trigger_path(text: str) -> str:
    """Return the path of `project/domain/task/name`. Raises Invalid if it is not a trigger's name."""
    key = TriggerKey.parse(text)
    _check_names(**key._asdict())
    return _path("/triggers", *key)


def task_path(text: str) -> str:
    """Return the path of `project/domain/name@version` (or with a slash). Raises Invalid if it is not a task's name."""
    parts = text.replace("@", "/", 1).split("/")
    if len(parts) != 4:
        raise Invalid.at("task", f"{text!r} is not project/domain/name@version", "write all four")
    return task_key_path(TaskKey(*parts))


def task_key_path(key: TaskKey) -> str:
    _check_names(project=key.project, domain=key.domain, task=key.name, version=key.version)
    return _path("/tasks", *key)


def calendar_path(text: str) -> str:
    """Return the path of `project/name`. Raises Invalid if it is not a calendar's name."""
    parts = text.split("/")
    if len(parts) != 2:
        raise Invalid.at("calendar", f"{text!r} is not project/name", "write both, joined by /")
    _check_names(project=parts[0], name=parts[1])
    return _path("/calendars", *parts)


def blackout_path(text: str) -> str:
    """Return the path of a blackout's id. Raises Invalid."""
    if not is_id(text):
        raise Invalid.at("blackout", f"{text!r} is not a blackout's id", "`triggerctl blackout list` shows them")
    return _path("/blackouts", text.upper())


def run_path(text: str) -> str:
    """Return the path of a run's id. Raises Invalid."""
    if not is_id(text):
        raise Invalid.at("run", f"{text!r} is not a run's id", "`triggerctl runs list` shows them")
    return _path("/runs", text.upper())


def token_path(text: str) -> str:
    """Return the path of a token's id. Raises Invalid."""
    if not is_id(text):
        raise Invalid.at("token", f"{text!r} is not a token's id", "`triggerctl token list` shows them")
    return _path("/tokens", text.upper())


def _path(collection: str, *names: str) -> str:
    return "/".join([collection, *(quote(name, safe="") for name in names)])


def _check_names(**names: str) -> None:
    if faults := name_faults("", **names):
        raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)

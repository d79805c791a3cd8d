"""Validation of documents against their types; every fault has a path, a message and a hint (R-01, R-18)."""

import json
from functools import cache
from typing import Any, TypeVar, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from revisions.errors import Fault, Invalid, few
from revisions.spec import documents, fields

API_VERSION = "triggerctl/v1"
LATER = frozenset(
    {
        "event", "webhook", "file", "table", "action", "debounce",
    }
)  # fmt: skip
"""Fields of the interface that this version does not implement; they are refused, never silently ignored."""

Spec = TypeVar("Spec")


def opened(document: Any, kind: str, known: set[str]) -> dict[str, Any]:
    """Check the kind, the API version and the top-level fields of a document, and return it. Raises Invalid."""
    if not isinstance(document, dict):
        raise Invalid.at(
            kind, f"must be a mapping, not {type(document).__name__}", f"start with apiVersion: {API_VERSION}"
        )
    documents.check(document)
    faults = few(unknown(name, name, sorted(known)) for name in document if name not in known)
    if document.get("apiVersion") != API_VERSION:
        faults.append(Fault("apiVersion", f"is {document.get('apiVersion')!r}", f"write apiVersion: {API_VERSION}"))
    if document.get("kind") != kind:
        faults.append(Fault("kind", f"is {document.get('kind')!r}, expected {kind}", f"write kind: {kind}"))
    refuse(faults)
    return document


def refuse(faults: list[Fault]) -> None:
    """Raise Invalid for faults, if there are any."""
    if faults:
        raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)


def validated(kind: type[Spec], value: Any, path: str, faults: list[Fault]) -> Spec | None:
    """Return a part of a document as its typed object, or None after adding its faults to the list."""
    if not isinstance(value, dict):
        faults.append(Fault(path, "is missing" if value is None else "must be a mapping"))
        return None
    try:
        return typed(kind, value)
    except ValidationError as error:
        faults.extend(few(_fault(kind, path, details) for details in error.errors(include_url=False)))
        return None


def typed(kind: type[Spec], value: Any) -> Spec:
    """Return a mapping as its typed object. Raises ValidationError."""
    adapter = _adapter(kind)  # type: ignore[arg-type]  # a class is hashable, whatever its objects are
    spec: Spec = adapter.validate_python(value)
    return spec


def typed_json(kind: type[Spec], text: str) -> Spec:
    """Parse a JSON text directly into its typed object. Raises ValidationError."""
    adapter = _adapter(kind)  # type: ignore[arg-type]  # as above
    spec: Spec = adapter.validate_json(text)
    return spec


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Return the cached adapter of a type; building one takes milliseconds."""
    return TypeAdapter(kind)


def _fault(kind: type, path: str, details: ErrorDetails) -> Fault:
    location = details["loc"]
    where = path + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    name = str(location[-1]) if location else path
    value = details["input"]
    match details["type"]:
        case fields.NOTATION:
            facts = details["ctx"]
            return Fault(where + facts["path"], facts["message"], facts["hint"])
        case "unexpected_keyword_argument":
            return unknown(where, name, _known(kind, location[:-1]))
        case "missing":
            return Fault(where, "is missing", _missing_hint(name))
        case "string_type" if isinstance(value, bool | int | float):
            written = getattr(value, "written", None) or json.dumps(value)
            return Fault(where, f"{written} is not a string", f'quote it, so that it stays as written: "{written}"')
        case "dataclass_type":
            return Fault(where, "must be a mapping")
        case "literal_error" | "enum":
            return Fault(where, f"{value!r} is not known", f"one of {details.get('ctx', {}).get('expected', '')}")
        case _:
            message = details["msg"].removeprefix("Value error, ")
            return Fault(where, message[0].lower() + message[1:])


def _missing_hint(name: str) -> str:
    return "a trigger needs exactly one automation: write schedule: {cron: …}" if name == "schedule" else ""


def _known(kind: Any, location: tuple[int | str, ...]) -> list[str]:
    """Return the field names of the block at a location."""
    for part in location:
        annotation = kind.__pydantic_fields__[str(part)].annotation
        kind = next(member for member in (annotation, *get_args(annotation)) if isinstance(member, type))
    return [field.alias or name for name, field in kind.__pydantic_fields__.items()]


def unknown(path: str, name: str, known: list[str]) -> Fault:
    """Return the fault of a field that is unknown, or not implemented by this version."""
    if name in LATER:
        return Fault(path, "is not supported by this version", "leave it out")
    return Fault.unknown(path, name, known)

"""Request bodies: read up to a limit, parsed as JSON or YAML, and validated field by field like manifests.

FastAPI's own reading of bodies has neither a limit nor a time-out, and does not refuse duplicate keys.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import NoneType, UnionType
from typing import Annotated, Any, BinaryIO, Final, Literal, TypeVar, Union, get_args, get_origin

from fastapi import Depends, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, PlainValidator, ValidationError, WithJsonSchema
from pydantic_core import ErrorDetails, PydanticCustomError
from starlette.concurrency import run_in_threadpool

from controller.errors import TooLarge
from revisions.errors import Fault, Invalid, Malformed, few
from revisions.ids import TriggerKey, name_faults
from revisions.spec import documents, reading
from revisions.spec.notation import ScheduleError, instant

LARGEST: Final = 1024 * 1024
_MOST_DRAINED: Final = 16 * LARGEST
PATIENCE_SECONDS = 60.0
"""Longest time a body may take to arrive, so that unfinished requests do not hold connections for ever."""
_IN_MEMORY: Final = 1024 * 1024
_YAML: Final = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")
_FAULTS: Final = "faults"
"""Error type of this module's own validators; the error's context holds the faults."""


class RequestBody(BaseModel):
    """Base of the models of request bodies. A field that is null counts as left out."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Model = TypeVar("Model", bound=RequestBody)


@dataclass(frozen=True, slots=True)
class RawBody:
    """Bytes of a request's body and their media type."""

    content: bytes
    media_type: str

    def document(self) -> Any:
        """Parse the one document in the body. Raises Malformed with line and column."""
        try:
            text = self.content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise Malformed("body: is not UTF-8") from None
        if self.media_type not in _YAML:
            return documents.parse(text, "body")
        parsed = documents.load(text, "body", most=2)
        if len(parsed) != 1:
            raise Malformed(f"body: holds {'more than one document' if parsed else 'no document'}, one is taken")
        return parsed[0]

    def validated(self, model: type[Model]) -> Model:
        """Return the body as its model; an empty body is an empty object. Raises Malformed and Invalid."""
        value = self.document() if self.content.strip() else {}
        if not isinstance(value, dict):
            raise Invalid.at("body", f"must be an object, not {type(value).__name__}", "send {}")
        documents.check(value)
        try:
            return model.model_validate({name: item for name, item in value.items() if item is not None})
        except ValidationError as error:
            details = sorted(error.errors(include_url=False), key=lambda detail: detail["type"] != "extra_forbidden")
        faults = few(fault for detail in details for fault in _faults(model, detail))
        raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)


async def raw_body(request: Request) -> RawBody:
    """Read the body. Raises TooLarge beyond the limit, Malformed for a body that does not end in time."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            content = await _read(request)
    except TimeoutError:
        raise Malformed(f"body: was not all there after {PATIENCE_SECONDS:.0f} s") from None
    return RawBody(content, request.headers.get("content-type", "").partition(";")[0].strip().lower())


async def _read(request: Request) -> bytes:
    """Raise TooLarge; a moderate excess is read all the same, else the client would not get the answer."""
    content = bytearray()
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= LARGEST:
            content += chunk
        elif size > _MOST_DRAINED:
            break
    if size > LARGEST:
        raise TooLarge(f"the body is larger than {LARGEST} bytes")
    return bytes(content)


RawBodyDep = Annotated[RawBody, Depends(raw_body)]


def body(model: type[Model]) -> Any:
    """Dependency that returns the request's body as its model. The route documents it with `documented`."""

    def validated(raw: RawBodyDep) -> Model:  # not async: parsing a large body would block the event loop
        return raw.validated(model)

    return Depends(validated)


def documented(model: type[RequestBody]) -> dict[str, Any]:
    """Return `openapi_extra` of a route whose body is the model."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})
    required = bool(schema.get("required"))
    content = {"application/json": {"schema": _inlined(schema, definitions)}}
    return {"requestBody": {"required": required, "content": content}}


def _inlined(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """Return a JSON schema whose references are replaced by what they refer to."""
    if isinstance(schema, list):
        return [_inlined(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    return {name: _inlined(item, definitions) for name, item in schema.items()}


def _faults(model: type[BaseModel], details: ErrorDetails) -> Iterator[Fault]:
    """Yield the faults of one error that pydantic found."""
    location, given = details["loc"], details["input"]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).removeprefix(".")
    match details["type"]:
        case "extra_forbidden":
            parent = _annotation(model, location[:-1])
            yield Fault.unknown(path, str(location[-1]), _names(parent))
        case "missing":
            yield Fault(path, "is missing", f"send {_json_name(_annotation(model, location))}")
        case "enum" | "literal_error" if isinstance(given, str):
            allowed = _allowed(_annotation(model, location))
            yield Fault(path, f"{given!r} is not known", f"one of {', '.join(allowed)}")
        case kind if kind == _FAULTS:
            for fault in details["ctx"]["faults"]:
                yield Fault(f"{path}.{fault.path}" if fault.path else path, fault.message, fault.hint)
        case _:
            name = _json_name(_annotation(model, location))
            yield Fault(path, f"must be {name}, not {type(given).__name__}", "")


def _annotation(model: Any, location: Sequence[int | str]) -> Any:
    """Return the type at a location of a model."""
    annotation = model
    for part in location:
        if isinstance(part, int):
            annotation = get_args(annotation)[0]
        else:
            fields = annotation.model_fields
            annotation = next(field.annotation for name, field in fields.items() if (field.alias or name) == part)
        annotation = _without_null(annotation)
    return annotation


def _without_null(annotation: Any) -> Any:
    if get_origin(annotation) is Annotated:
        return _without_null(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return _without_null(next(part for part in get_args(annotation) if part is not NoneType))
    return annotation


def _names(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _allowed(annotation: Any) -> Iterable[str]:
    return get_args(annotation) if get_origin(annotation) is Literal else [str(member.value) for member in annotation]


def _json_name(annotation: Any) -> str:
    """Return what JSON calls a type."""
    if annotation is bool:
        return "a boolean"
    if annotation is int:
        return "a whole number"
    if get_origin(annotation) is list:
        return "a list"
    if get_origin(annotation) is dict or (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return "an object"
    return "a string"


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise PydanticCustomError("string_type", "must be a string")
    return value


def _invalid(faults: Sequence[Fault]) -> PydanticCustomError:
    return PydanticCustomError(_FAULTS, "is wrong", {"faults": list(faults)})


def _trigger_key(value: object) -> TriggerKey:
    try:
        key = TriggerKey.parse(_text(value))
    except Invalid as error:
        raise _invalid([Fault("", error.errors[0].message, error.errors[0].hint)]) from None
    if faults := name_faults("", **key._asdict()):
        raise _invalid(faults)
    return key


def _project(text: str) -> str:
    if faults := name_faults("", project=text):
        raise _invalid([Fault("", faults[0].message, faults[0].hint)])
    return text


def _moment(value: object) -> datetime:
    try:
        return instant(_text(value), "")
    except ScheduleError as error:
        raise _invalid([Fault("", error.message, error.hint)]) from None


TriggerName = Annotated[
    TriggerKey,
    PlainValidator(_trigger_key),
    WithJsonSchema({"type": "string", "description": "project/domain/task/name"}),
]
ProjectName = Annotated[str, AfterValidator(_project)]
Moment = Annotated[datetime, PlainValidator(_moment), WithJsonSchema({"type": "string", "format": "date-time"})]


class ReasonIn(RequestBody):
    """Body of changes that need nothing but a reason."""

    reason: str | None = None


MANIFEST: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "a manifest in JSON or YAML; the names in its metadata must be those of the path",
        "content": {kind: {"schema": {"type": "object"}} for kind in ("application/json", "application/yaml")},
    }
}
"""`openapi_extra` of a route whose body is a manifest."""


def manifest_at(document: Any, kind: str, names: Mapping[str, str]) -> Any:
    """Return a manifest completed with the names in the path. Raises Invalid if the two disagree."""
    if not isinstance(document, dict):
        return document
    metadata = document.get("metadata", {})
    if not isinstance(metadata, dict):
        return document
    faults = [
        Fault(f"metadata.{field}", f"says {metadata[field]!r}, the path {text!r}", "make them agree, or leave it out")
        for field, text in names.items()
        if field in metadata and metadata[field] != text
    ]
    if faults:
        documents.check(document)
        raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)
    return {"apiVersion": reading.API_VERSION, "kind": kind} | document | {"metadata": metadata | dict(names)}


def upload(largest: int | None) -> Callable[[Request], AsyncIterator[BinaryIO]]:
    """Return a dependency that stores a body of up to `largest` bytes in a temporary file; None: of any size.

    The dependency raises TooLarge.
    """

    async def uploaded(request: Request) -> AsyncIterator[BinaryIO]:
        with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
            async for chunk in request.stream():
                await run_in_threadpool(file.write, chunk)
                if largest is not None and file.tell() > largest:
                    raise TooLarge(f"the body is larger than {largest} bytes")
            file.seek(0)
            yield file  # type: ignore[misc]  # SpooledTemporaryFile has all methods of BinaryIO but is not declared so

    return uploaded


def documented_upload(media_type: str, description: str) -> dict[str, Any]:
    """Return `openapi_extra` of a route that takes an upload."""
    return {"requestBody": {"required": True, "description": description, "content": {media_type: {}}}}

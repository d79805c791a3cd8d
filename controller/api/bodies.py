"""Request bodies: taken in up to a limit, JSON or YAML, judged field by field like manifests."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request

from controller.errors import TooLarge
from revisions.errors import Fault, Invalid, Malformed, few
from revisions.spec import documents, reading

LARGEST = 1024 * 1024
_DRAINED = 16 * LARGEST
PATIENCE_SECONDS = 60.0
"""How long a body may take to come: who only begins one, and anybody may at the sign-in page, holds a connection."""
_YAML = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")


@dataclass(frozen=True, slots=True)
class Body:
    """What was sent."""

    content: bytes
    media_type: str

    def document(self) -> Any:
        """The one document in it. Raises Malformed, with line and column, and TooLarge."""
        try:
            text = self.content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise Malformed("body: is not UTF-8") from None
        if self.media_type not in _YAML:
            return documents.parse(text, "body")
        found = documents.load(text, "body", most=2)
        if len(found) != 1:
            raise Malformed(f"body: holds {'more than one document' if found else 'no document'}, one is taken")
        return found[0]

    def fields(self, *needed: str, **kinds: type) -> dict[str, Any]:
        """The named fields of a JSON object, None for those left out; an empty body is an empty object.

        Raises Malformed and Invalid.
        """
        value = self.document() if self.content.strip() else {}
        if not isinstance(value, dict):
            raise Invalid.at("body", f"must be an object, not {type(value).__name__}", "send {}")
        documents.check(value)
        faults = few(Fault.unknown(name, name, kinds) for name in value if name not in kinds)
        for name, kind in kinds.items():
            given = value.get(name)
            if given is None and name in needed:
                faults.append(Fault(name, "is missing", f"send {_CALLED[kind]}"))
            elif given is not None and not is_a(given, kind):
                faults.append(Fault(name, f"must be {_CALLED[kind]}, not {type(given).__name__}"))
        if faults:
            raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)
        return {name: value.get(name) for name in kinds}


_CALLED: Mapping[type, str] = {
    str: "a string",
    int: "a whole number",
    dict: "an object",
    list: "a list",
    bool: "a boolean",
}


def is_a(value: Any, kind: type) -> bool:
    """Whether a JSON value is of a kind; true and false are no numbers."""
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


async def body(request: Request) -> Body:
    """Takes the body in. Raises TooLarge beyond the limit, and Malformed for one that does not come to its end."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            content = await _taken(request)
    except TimeoutError:
        raise Malformed(f"body: was not all there after {PATIENCE_SECONDS:.0f} s") from None
    return Body(content, request.headers.get("content-type", "").partition(";")[0].strip().lower())


async def _taken(request: Request) -> bytes:
    """Raises TooLarge; what little more was sent is read, so that it is heard."""
    content = bytearray()
    taken = 0
    async for chunk in request.stream():
        taken += len(chunk)
        if taken <= LARGEST:
            content += chunk
        elif taken > _DRAINED:
            break
    if taken > LARGEST:
        raise TooLarge(f"the body is larger than {LARGEST} bytes")
    return bytes(content)


Sent = Annotated[Body, Depends(body)]

MANIFEST: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "a manifest, as JSON or YAML; what its metadata names must agree with the path",
        "content": {kind: {"schema": {"type": "object"}} for kind in ("application/json", "application/yaml")},
    }
}


def fields_schema(*needed: str, **properties: Mapping[str, Any]) -> dict[str, Any]:
    """`openapi_extra` of a route whose body is read by `Body.fields`."""
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    if needed:
        schema["required"] = list(needed)
    return {"requestBody": {"required": bool(needed), "content": {"application/json": {"schema": schema}}}}


def manifest_at(document: Any, kind: str, names: Mapping[str, str]) -> Any:
    """A manifest with what the path says filled in. Raises Invalid where the two disagree."""
    if not isinstance(document, dict):
        return document
    given = document.get("metadata", {})
    if not isinstance(given, dict):
        return document
    faults = [
        Fault(f"metadata.{field}", f"says {given[field]!r}, the path {text!r}", "make them agree, or leave it out")
        for field, text in names.items()
        if field in given and given[field] != text
    ]
    if faults:
        documents.check(document)
        raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)
    return {"apiVersion": reading.API_VERSION, "kind": kind} | document | {"metadata": given | dict(names)}

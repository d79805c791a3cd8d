"""Lists in parts: a limit, and a cursor that says where the next part begins and means nothing to anybody else."""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from fastapi import Query
from pydantic import AfterValidator

from controller.shapes.common import Page
from revisions.errors import Invalid
from revisions.ids import is_id

MOST = 1000
LARGEST_NUMBER = 2**31 - 1
"""The largest revision or attempt there can be."""
LARGEST_POSITION = 2**53 - 1
"""The last byte of a log that can be asked for; one may print many gigabytes, of which the ends are kept."""

Found = TypeVar("Found")
Shape = TypeVar("Shape")


def _clean(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL character")
    return text


Limit = Annotated[int, Query(ge=1, le=MOST, description="how many at most")]
Cursor = Annotated[str | None, Query(description="`next_cursor` of the part before")]
Filter = Annotated[str | None, AfterValidator(lambda text: text if text is None else _clean(text)), Query()]


def pack(*parts: str) -> str:
    """A cursor of these texts."""
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


def unpack(cursor: str | None, count: int) -> list[str] | None:
    """The texts of a cursor, None without one. Raises Invalid for one that was not made by `pack`."""
    if cursor is None:
        return None
    try:
        parts = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        raise bad_cursor() from None
    if not isinstance(parts, list) or len(parts) != count or not all(map(_is_text, parts)):
        raise bad_cursor()
    return parts


def number(cursor: str | None) -> int | None:
    """The number that a cursor of one part is. Raises Invalid for one that is none."""
    start = unpack(cursor, 1)
    if start is None:
        return None
    if not (start[0].isascii() and start[0].isdigit() and len(start[0]) < 10):
        raise bad_cursor()
    return int(start[0])


def id_before(cursor: str | None) -> str | None:
    """The id that a cursor of one part is. Raises Invalid for one that is none."""
    start = unpack(cursor, 1)
    if start is None:
        return None
    if not is_id(start[0]):
        raise bad_cursor()
    return start[0]


def bad_cursor() -> Invalid:
    return Invalid.at("cursor", "is not one that this list gave out", "leave it out to begin anew")


def page(
    found: Sequence[Found], limit: int, shape: Callable[[Found], Shape], cursor: Callable[[Found], str]
) -> Page[Shape]:
    """The part of up to `limit` out of one more than that, which says whether there is a next one."""
    items = found[:limit]
    return {
        "items": [shape(item) for item in items],
        "next_cursor": cursor(items[-1]) if len(found) > limit else None,
    }


def _is_text(part: object) -> bool:
    return isinstance(part, str) and "\0" not in part and part.isprintable()

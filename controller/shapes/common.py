"""What every shape is made of: times, objects, parts of lists."""

from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

from pydantic import WithJsonSchema
from typing_extensions import TypedDict

from revisions.ids import utc_text

Time = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]


Object = dict[str, Any]


Item = TypeVar("Item")


Since = TypedDict("Since", {"from": Time})  # a name that no class body can hold


class Page(TypedDict, Generic[Item]):
    """A part of a list; the next one begins at the cursor, which is null after the last (never in `/changes`)."""

    items: list[Item]
    next_cursor: str | None


def time_text(at: datetime | None) -> str | None:
    return utc_text(at) if at else None


def plain(value: Any) -> Any:
    return utc_text(value) if isinstance(value, datetime) else value

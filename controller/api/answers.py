"""Answers shared by all resources: the base model, times, lists in pages, and long work with progress.

A list page has a limit and an opaque cursor that says where the next page begins. Long work is answered with lines of
JSON if the client accepts them: progress first, then the answer or the problem.
"""

import base64
import binascii
import json
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Generic, TypeVar

from fastapi import Header, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import AfterValidator, BaseModel, ConfigDict, WithJsonSchema

from controller.errors import UNEXPECTED, UNEXPECTED_DETAIL, document_of, problem
from reconcile.observations.observation import Progress
from revisions.errors import Invalid, TriggerctlError
from revisions.ids import is_id, utc_text
from revisions.spec.notation import ScheduleError, instant

MOST_ITEMS: Final = 1000
LARGEST_NUMBER: Final = 2**31 - 1
"""Largest revision or attempt."""
NDJSON: Final = "application/x-ndjson"
PROGRESS_SECONDS = 0.2
"""Shortest time between two lines of progress."""

log = logging.getLogger(__name__)

Time = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
Object = dict[str, Any]
Row = TypeVar("Row")
Item = TypeVar("Item")


class Answer(BaseModel):
    """Base of everything that the API answers."""

    model_config = ConfigDict(frozen=True)


class ListOut(Answer, Generic[Item]):
    """One page of a list. The next page begins at the cursor, which is null after the last (never in `/changes`)."""

    items: list[Item]
    next_cursor: str | None


def time_text(at: datetime | None) -> str | None:
    """Return a time as answers show it, None for None."""
    return utc_text(at) if at else None


def _without_nul(text: str | None) -> str | None:
    if text is not None and "\0" in text:
        raise ValueError("holds a NUL character")
    return text


LimitQuery = Annotated[int, Query(ge=1, le=MOST_ITEMS, description="largest number of items")]
CursorQuery = Annotated[str | None, Query(description="`next_cursor` of the page before")]
FilterQuery = Annotated[str | None, AfterValidator(_without_nul), Query()]


def pack(*parts: str) -> str:
    """Return a cursor that holds these texts."""
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


def unpack(cursor: str | None, count: int) -> list[str] | None:
    """Return the texts in a cursor, None without one. Raises Invalid for a text that `pack` did not make."""
    if cursor is None:
        return None
    try:
        parts = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        raise bad_cursor() from None
    if not isinstance(parts, list) or len(parts) != count or not all(map(_is_text, parts)):
        raise bad_cursor()
    return parts


def number_in(cursor: str | None) -> int | None:
    """Return the number in a cursor. Raises Invalid."""
    parts = unpack(cursor, 1)
    if parts is None:
        return None
    if not (parts[0].isascii() and parts[0].isdigit() and len(parts[0]) < 10):
        raise bad_cursor()
    return int(parts[0])


def id_in(cursor: str | None) -> str | None:
    """Return the id in a cursor. Raises Invalid."""
    parts = unpack(cursor, 1)
    if parts is None:
        return None
    if not is_id(parts[0]):
        raise bad_cursor()
    return parts[0]


def instant_in(cursor: str | None, count: int) -> tuple[datetime, list[str]] | None:
    """Return the instant that a cursor of so many texts begins with, and the other texts. Raises Invalid."""
    parts = unpack(cursor, count)
    if parts is None:
        return None
    try:
        return instant(parts[0]), parts[1:]
    except ScheduleError:
        raise bad_cursor() from None


def bad_cursor() -> Invalid:
    """Return the error of a cursor that this API did not make."""
    return Invalid.at("cursor", "is not one that this list gave out", "leave it out to begin anew")


def page(
    model: type[ListOut[Item]],
    rows: Sequence[Row],
    limit: int,
    answer: Callable[[Row], Item],
    cursor: Callable[[Row], str],
) -> ListOut[Item]:
    """Return a page of up to `limit` items; `rows` holds one more row if there is a next page."""
    shown = rows[:limit]
    return model(items=[answer(row) for row in shown], next_cursor=cursor(shown[-1]) if len(rows) > limit else None)


def _is_text(part: object) -> bool:
    return isinstance(part, str) and "\0" not in part and part.isprintable()


AcceptHeader = Annotated[str, Header(description=f"{NDJSON}: lines of progress, then the answer in the last line")]
Work = Callable[[Progress], Answer]


def answer_long_work(accept: str, work: Work) -> Response:
    """Do the work and answer its result, with progress if the client accepts NDJSON.

    Raises the errors of the work, unless it is answered with progress: then the last line is the problem.
    """
    if NDJSON in accept:
        return StreamingResponse(_lines(work), media_type=NDJSON)
    return Response(json.dumps(_json(work(lambda done, total: None))), media_type="application/json")


def _json(answer: Answer) -> Object:
    return answer.model_dump(mode="json", by_alias=True)


def _lines(work: Work) -> Iterator[bytes]:
    lines: queue.Queue[Object] = queue.Queue()
    threading.Thread(target=_run, args=(work, lines), name="long-work", daemon=True).start()
    while True:
        line = lines.get()
        yield json.dumps(line).encode() + b"\n"
        if "progress" not in line:
            return


def _run(work: Work, lines: "queue.Queue[Object]") -> None:
    last_line_at = time.monotonic()

    def progress(done: int, total: int) -> None:
        nonlocal last_line_at
        if time.monotonic() - last_line_at >= PROGRESS_SECONDS:
            last_line_at = time.monotonic()
            lines.put({"progress": {"done": done, "total": total}})

    try:
        lines.put({"answer": _json(work(progress))})
    except TriggerctlError as error:
        lines.put({"problem": problem(error)})
    except Exception as error:  # the status line is already sent, so the answer must end with a problem
        log.error("long work failed", exc_info=error)
        lines.put({"problem": document_of(UNEXPECTED, UNEXPECTED_DETAIL)})

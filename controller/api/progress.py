"""Long work that says how far it is: lines of JSON for who asks for them, else the answer alone.

The last line is the answer, or the problem that came up; what stands before it is progress.
"""

import json
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

from fastapi import Header, Response
from fastapi.responses import StreamingResponse

from controller.errors import UNEXPECTED, document_of, problem
from reconcile.observations.observation import Progress
from revisions.errors import TriggerctlError

NDJSON = "application/x-ndjson"
Accept = Annotated[str, Header(description=f"{NDJSON}: progress line by line, the answer in the last")]
Work = Callable[[Progress], Mapping[str, Any]]
EVERY_SECONDS = 0.2

log = logging.getLogger(__name__)


def answered(accept: str, work: Work) -> Response:
    """What the work answers, with its progress if that is accepted. Raises what the work raises, if it is not."""
    if NDJSON in accept:
        return StreamingResponse(_lines(work), media_type=NDJSON)
    return Response(json.dumps(work(lambda done, total: None)), media_type="application/json")


def _lines(work: Work) -> Iterator[bytes]:
    told: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_run, args=(work, told), name="long-work", daemon=True).start()
    while True:
        line = told.get()
        yield json.dumps(line).encode() + b"\n"
        if "progress" not in line:
            return


def _run(work: Work, told: "queue.Queue[dict[str, Any]]") -> None:
    before = time.monotonic()

    def progress(done: int, total: int) -> None:
        nonlocal before
        if time.monotonic() - before >= EVERY_SECONDS:
            before = time.monotonic()
            told.put({"progress": {"done": done, "total": total}})

    try:
        told.put({"answer": work(progress)})
    except TriggerctlError as error:
        told.put({"problem": problem(error)})
    except Exception as error:  # it is logged; the answer is under way, so that it must end as one
        log.error("long work failed", exc_info=error)
        told.put({"problem": document_of(UNEXPECTED, "something went wrong inside; the controller's log says what")})

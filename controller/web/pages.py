"""The web page (U-04): the triggers, one of them with its revisions and runs, one run with its log."""

from typing import Annotated, cast

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from controller.api.context import Here, Named, NamedId, Within, usable
from controller.api.paging import LARGEST_NUMBER, Cursor, Filter
from controller.web import reading, signing
from controller.web.answering import HERE, ErrorHandler, Files, or_page, page
from controller.web.reading import LOOKED_BACK, Sought
from revisions.errors import Invalid, TriggerctlError

router = APIRouter(include_in_schema=False, default_response_class=Response, dependencies=[Depends(usable)])


def install(app: FastAPI) -> None:
    """Adds the pages to an application whose errors are problem documents already; browsers get them as pages."""
    app.include_router(router)
    app.include_router(signing.router)
    app.mount("/static", Files(directory=HERE / "static"), name="static")
    for kind in (TriggerctlError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, or_page(cast(ErrorHandler, app.exception_handlers[kind])))


@router.get("/")
def triggers(
    request: Request,
    here: Here,
    within: Within,
    project: Filter = None,
    tag: Filter = None,
    active: Filter = None,
    cursor: Cursor = None,
) -> Response:
    """All triggers that are not deleted: what each will do next, and how it last went."""
    sought = Sought(project or None, tag or None, _yes_or_no(active))
    return page(
        request, "triggers.html", sought=sought, page=reading.listing(here, within, sought, cursor or None), at=cursor
    )


@router.get("/triggers/{project}/{domain}/{task}/{name}")
def trigger(
    request: Request, key: Named, here: Here, within: Within, revisions: Cursor = None, runs: Cursor = None
) -> Response:
    """One trigger: how it stands, what is ahead, what was."""
    shown = reading.detail(here, within, key, revisions, runs)
    return page(
        request, "trigger.html", key=key, page=shown, revisions_from=revisions, runs_from=runs, looked_back=LOOKED_BACK
    )


@router.get("/runs/{id}")
def run(
    request: Request,
    id: NamedId,
    here: Here,
    within: Within,
    attempt: Annotated[int | None, Query(ge=1, le=LARGEST_NUMBER)] = None,
) -> Response:
    """One run: what it was given, what it printed and answered."""
    return page(request, "run.html", page=reading.run_detail(here, within, id, attempt))


def _yes_or_no(text: str | None) -> bool | None:
    """A filter as a form sends it: empty is either."""
    match text:
        case None | "":
            return None
        case "true" | "false":
            return text == "true"
        case _:
            raise Invalid.at("active", f"{text!r} is neither true nor false", "leave it out to see all")

"""The web page (U-04): the triggers, one of them with its revisions and runs, one run with its log."""

from typing import Annotated, cast

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from controller.api.answers import LARGEST_NUMBER, CursorQuery, FilterQuery
from controller.api.parameters import IdPath, ReachDep, ServicesDep, TriggerPath, check_schema
from controller.auth.guard import SAFE
from controller.auth.requirements import Projects, public, require
from controller.web import reading, signing
from controller.web.answering import HERE, ErrorHandler, Files, or_page, page
from controller.web.reading import LOOKED_BACK, Sought
from reconcile.decide.authority import Role
from revisions.errors import Invalid, TriggerctlError

router = APIRouter(include_in_schema=False, default_response_class=Response, dependencies=[Depends(check_schema)])

files = APIRouter(include_in_schema=False)
_FILES = Files(directory=HERE / "static")


def install(app: FastAPI) -> None:
    """Adds the pages to an application whose errors are problem documents already; browsers get them as pages."""
    app.include_router(router)
    app.include_router(signing.router)
    app.include_router(files)
    for kind in (TriggerctlError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, or_page(cast(ErrorHandler, app.exception_handlers[kind])))


@files.api_route("/static/{path:path}", methods=[*SAFE], dependencies=[public()])
async def static(request: Request, path: str) -> Response:
    """Answer a stylesheet, a script or an icon."""
    return await _FILES.get_response(_FILES.get_path({**request.scope, "path": f"/{path}"}), request.scope)


@router.get("/", dependencies=[require(Role.VIEWER)])
def triggers(
    request: Request,
    here: ServicesDep,
    within: ReachDep,
    project: FilterQuery = None,
    tag: FilterQuery = None,
    active: FilterQuery = None,
    cursor: CursorQuery = None,
) -> Response:
    """All triggers that are not deleted: what each will do next, and how it last went."""
    sought = Sought(project or None, tag or None, _yes_or_no(active))
    return page(
        request, "triggers.html", sought=sought, page=reading.listing(here, within, sought, cursor or None), at=cursor
    )


@router.get("/triggers/{project}/{domain}/{task}/{name}", dependencies=[require(Role.VIEWER, Projects.NAMED)])
def trigger(
    request: Request, key: TriggerPath, here: ServicesDep, revisions: CursorQuery = None, runs: CursorQuery = None
) -> Response:
    """One trigger: how it stands, what is ahead, what was."""
    shown = reading.detail(here, key, revisions, runs)
    return page(
        request, "trigger.html", key=key, page=shown, revisions_from=revisions, runs_from=runs, looked_back=LOOKED_BACK
    )


@router.get("/runs/{id}", dependencies=[require(Role.VIEWER)])
def run(
    request: Request,
    id: IdPath,
    here: ServicesDep,
    within: ReachDep,
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

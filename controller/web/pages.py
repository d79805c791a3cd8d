"""Pages (U-04): the list of triggers, one trigger with its revisions and runs, one run with its log."""

from typing import Annotated, cast

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from controller.api.answers import LARGEST_NUMBER, CursorQuery, FilterQuery
from controller.api.parameters import IdPath, ReachDep, ServicesDep, TriggerPath, check_schema
from controller.api.triggers import TriggerFilter
from controller.auth.guard import SAFE
from controller.auth.requirements import Projects, public, require
from controller.web import page_data, sign_in
from controller.web.page_data import SEARCHED_OCCURRENCES
from controller.web.rendering import FOLDER, ErrorHandler, PageFiles, or_error_page, render
from reconcile.decide.authority import Role
from revisions.errors import Invalid, TriggerctlError

router = APIRouter(include_in_schema=False, default_response_class=Response, dependencies=[Depends(check_schema)])

files = APIRouter(include_in_schema=False)
_FILES = PageFiles(directory=FOLDER / "static")


def install(app: FastAPI) -> None:
    """Add the pages to an application that answers errors with problem documents; browsers get these as pages."""
    app.include_router(router)
    app.include_router(sign_in.router)
    app.include_router(files)
    for kind in (TriggerctlError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, or_error_page(cast(ErrorHandler, app.exception_handlers[kind])))


@files.api_route("/static/{path:path}", methods=[*SAFE], dependencies=[public()])
async def static(request: Request, path: str) -> Response:
    """Return the stylesheet, a script or the icon."""
    return await _FILES.get_response(_FILES.get_path({**request.scope, "path": f"/{path}"}), request.scope)


@router.get("/", dependencies=[require(Role.VIEWER)])
def triggers(
    request: Request,
    services: ServicesDep,
    reach: ReachDep,
    project: FilterQuery = None,
    tag: FilterQuery = None,
    active: FilterQuery = None,
    cursor: CursorQuery = None,
) -> Response:
    """Return the page of all triggers that are not deleted, each with its next fire and last outcome."""
    filters = TriggerFilter(project=project or None, tag=tag or None, active=_yes_or_no(active))
    page = page_data.read_triggers_page(services, reach, filters, cursor or None)
    return render(request, "triggers.html", page=page, filters=filters, cursor=cursor)


@router.get("/triggers/{project}/{domain}/{task}/{name}", dependencies=[require(Role.VIEWER, Projects.NAMED)])
def trigger(
    request: Request, key: TriggerPath, services: ServicesDep, revisions: CursorQuery = None, runs: CursorQuery = None
) -> Response:
    """Return the page of one trigger: its state, its next fires, runs, skips and revisions."""
    return render(
        request,
        "trigger.html",
        key=key,
        page=page_data.read_trigger_page(services, key, revisions, runs),
        revisions_from=revisions,
        runs_from=runs,
        searched=SEARCHED_OCCURRENCES,
    )


@router.get("/runs/{id}", dependencies=[require(Role.VIEWER)])
def run(
    request: Request,
    id: IdPath,
    services: ServicesDep,
    reach: ReachDep,
    attempt: Annotated[int | None, Query(ge=1, le=LARGEST_NUMBER)] = None,
) -> Response:
    """Return the page of one run: its facts, log, input and output."""
    return render(request, "run.html", page=page_data.read_run_page(services, reach, id, attempt))


def _yes_or_no(text: str | None) -> bool | None:
    """Return the filter that a form sends, None for the empty text. Raises Invalid."""
    match text:
        case None | "":
            return None
        case "true" | "false":
            return text == "true"
        case _:
            raise Invalid.at("active", f"{text!r} is neither true nor false", "leave it out to see all")

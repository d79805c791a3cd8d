"""The HTTP application, put together of its routers and middleware."""

from functools import cache
from typing import Final

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import JSONResponse
from fastapi.telemetry import TelemetryConfig

from controller import problems
from controller.api import (
    audit,
    calendars,
    callbacks,
    catchup,
    fires,
    histories,
    history,
    holds,
    installation,
    preview,
    runs,
    state,
    tasks,
    tokens,
    trigger_changes,
    triggers,
)
from controller.api.parameters import check_schema, refuse_unknown_parameters
from controller.auth.guard import SAFE, Guard, SecurityHeaders
from controller.auth.requirements import RouteTable, require
from controller.services import Services
from controller.settings import VERSION
from reconcile.decide.authority import Role

PREFIX = "/api/v1"
NO_TELEMETRY: Final[TelemetryConfig] = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
"""FastAPI's telemetry would record whole paths and queries, which may hold secrets.

`telemetry.request_spans` records the route instead.
"""


def create_app(services: Services) -> FastAPI:
    """Return the API over these services. The server adds the web page and the metrics."""
    app = FastAPI(
        title="triggerctl",
        version=VERSION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        routes=_routes().routes,
        telemetry=NO_TELEMETRY,
    )
    app.state.services = services
    app.state.route_table = RouteTable(app)
    app.add_middleware(Guard, services=services, routes=app.state.route_table)
    problems.install(app)
    app.add_middleware(SecurityHeaders)
    return app


@cache
def _routes() -> APIRouter:
    """Return all routes. They do not depend on the services, and making them takes longer than a request."""
    router = APIRouter()
    known = Depends(refuse_unknown_parameters)
    resources = (
        triggers.router,
        trigger_changes.router,
        trigger_changes.bulk_router,
        fires.router,
        history.router,
        history.deadlines_router,
        history.feed_router,
        audit.router,
        catchup.router,
        state.router,
        histories.router,
        preview.router,
        tasks.router,
        calendars.router,
        holds.router,
        runs.router,
        callbacks.router,
        installation.router,
        tokens.router,
    )
    for resource in resources:
        checks = [known, Depends(check_schema)]
        router.include_router(resource, prefix=PREFIX, dependencies=checks, responses=problems.DOCUMENTED)
    router.include_router(
        installation.doctor_router, prefix=PREFIX, dependencies=[known], responses=problems.DOCUMENTED
    )
    router.include_router(installation.probes)
    router.add_api_route(
        "/openapi.json",
        openapi,
        methods=[*SAFE],
        dependencies=[require(Role.VIEWER)],
        include_in_schema=False,
    )
    return router


async def openapi(request: Request) -> JSONResponse:
    """Return the description of this API."""
    return JSONResponse(request.app.openapi())

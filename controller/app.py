"""The HTTP application: wiring only."""

from functools import cache
from typing import Final

from fastapi import APIRouter, Depends, FastAPI
from fastapi.telemetry import TelemetryConfig

from controller.api import (
    audit,
    bulk,
    byhand,
    calendars,
    catchup,
    changes,
    costs,
    deadlines,
    demand,
    doctor,
    health,
    histories,
    history,
    holds,
    preview,
    problems,
    runs,
    states,
    tasks,
    tokens,
    triggers,
)
from controller.api.context import usable
from controller.api.guard import Guard
from controller.api.headers import SecurityHeaders
from controller.api.parameters import only_known
from controller.services import Services
from controller.version import VERSION

PREFIX = "/api/v1"
NOT_BY_THE_FRAMEWORK: Final[TelemetryConfig] = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "auto_configure": False,
}
"""It would tell whole paths and queries, in which secrets may stand; `traced` tells the route."""


def create_app(services: Services) -> FastAPI:
    """The API over these services; the web page and the metrics are added by whoever serves it."""
    app = FastAPI(
        title="triggerctl",
        version=VERSION,
        openapi_url="/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        routes=_resources().routes,
        telemetry=NOT_BY_THE_FRAMEWORK,
    )
    app.state.services = services
    app.add_middleware(Guard, services=services)
    problems.install(app)
    app.add_middleware(SecurityHeaders)
    return app


@cache
def _resources() -> APIRouter:
    """All routes, which know no services: they are the same in every application, and take longer than a request."""
    router = APIRouter()
    checked = [Depends(only_known), Depends(usable)]
    resources = (
        triggers,
        byhand,
        bulk,
        history,
        audit,
        catchup,
        states,
        deadlines,
        histories,
        preview,
        changes,
        tasks,
        calendars,
        holds,
        runs,
        costs,
        tokens,
    )
    for resource in (*resources, demand):
        router.include_router(resource.router, prefix=PREFIX, dependencies=checked, responses=problems.DOCUMENTED)
    router.include_router(doctor.router, prefix=PREFIX, dependencies=checked[:1], responses=problems.DOCUMENTED)
    router.include_router(health.router)
    return router

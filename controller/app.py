"""The HTTP application: wiring only."""

from fastapi import Depends, FastAPI

from controller.api import health, history, preview, problems, runs, tasks, triggers
from controller.api.context import usable
from controller.services import Services
from controller.version import VERSION

PREFIX = "/api/v1"


def create_app(services: Services) -> FastAPI:
    """The API over these services; the web page and the metrics are added by whoever serves it."""
    app = FastAPI(
        title="triggerctl",
        version=VERSION,
        openapi_url="/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.services = services
    problems.install(app)
    for resource in (triggers, history, preview, tasks, runs):
        app.include_router(
            resource.router, prefix=PREFIX, dependencies=[Depends(usable)], responses=problems.DOCUMENTED
        )
    app.include_router(health.router)
    return app

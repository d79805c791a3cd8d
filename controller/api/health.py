"""Whether the process lives, and whether it can work."""

from typing import Literal

from fastapi import APIRouter, Request
from typing_extensions import TypedDict

from controller.api.context import Here
from controller.api.problems import DOCUMENTED

router = APIRouter(tags=["health"])


class Health(TypedDict):
    status: Literal["ok"]


@router.get("/healthz", responses=DOCUMENTED)
async def healthz(request: Request) -> Health:
    """The process lives and so does each of its parts, whatever became of the database."""
    request.app.state.services.condition.check_alive()
    return {"status": "ok"}


@router.get("/readyz", responses=DOCUMENTED)
def readyz(here: Here) -> Health:
    """The loop keeps looking, nobody told it to stop, and the database answers with a schema this release can use."""
    here.condition.check_ready()
    here.database.check_schema()
    return {"status": "ok"}

"""Whether the process lives, and whether it can work."""

from typing import Literal

from fastapi import APIRouter
from typing_extensions import TypedDict

from controller.api.context import Here
from controller.api.problems import DOCUMENTED

router = APIRouter(tags=["health"])


class Health(TypedDict):
    status: Literal["ok"]


@router.get("/healthz")
async def healthz() -> Health:
    """The process lives, whatever became of the database."""
    return {"status": "ok"}


@router.get("/readyz", responses=DOCUMENTED)
def readyz(here: Here) -> Health:
    """The database answers and has this release's schema; asked each time."""
    here.database.check_schema()
    return {"status": "ok"}

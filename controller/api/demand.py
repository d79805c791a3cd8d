"""How many starts a second the active schedules ask for (L-18)."""

from typing import Annotated

from fastapi import APIRouter, Query

from controller.api.context import Here
from controller.shapes.doctor import DemandShape, demand_shape
from reconcile.queries.doctor import demand_by_trigger

router = APIRouter(tags=["doctor"])

Most = Annotated[int, Query(ge=0, le=1000, description="how many triggers, those that ask for most")]


@router.get("/demand")
def demand(here: Here, limit: Most = 10) -> DemandShape:
    """What the active schedules ask for together, against `execution_qps`."""
    with here.database.read() as connection:
        now = here.database.clock.now(connection)
    return demand_shape(now, demand_by_trigger(here.database), here.settings.execution_qps, limit)

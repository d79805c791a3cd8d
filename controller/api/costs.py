"""What was spent, by trigger, tag or project (X-08)."""

from typing import Annotated

from fastapi import APIRouter, Query

from controller.api.context import Here, Within, listed, moment
from controller.api.paging import Filter
from controller.shapes.costs import CostsShape, costs_shape
from reconcile.queries.costs import By, sum_costs

router = APIRouter(tags=["costs"])

From = Annotated[str | None, Query(alias="from", description="an instant, which is in; left out, since ever")]
To = Annotated[str | None, Query(description="an instant, which is out; left out, now")]


@router.get("/costs")
def costs(
    here: Here, within: Within, by: By = "trigger", since: From = None, to: To = None, project: Filter = None
) -> CostsShape:
    """What attempts that ended in [from, to) cost, the dearest first, under the names and tags that are borne now."""
    reachable = listed(within, project)
    projects = reachable if project is None else [project]
    return costs_shape(sum_costs(here.database, by, moment(since, "from"), moment(to, "to"), projects))

"""Usage: costs by trigger, tag or project (X-08), and the starts per second that schedules demand (L-18)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query

from controller.api.answers import Answer, FilterQuery, Time
from controller.api.parameters import ReachDep, ServicesDep, optional_moment, projects_to_list
from controller.auth.requirements import Projects, require
from reconcile.decide.admission import is_too_much
from reconcile.decide.authority import Role
from reconcile.queries.costs import Account, By, sum_costs
from reconcile.queries.doctor import demand_by_trigger
from revisions.ids import TriggerKey, utc_text

router = APIRouter()

FromQuery = Annotated[str | None, Query(alias="from", description="beginning, included; left out: unbounded")]
ToQuery = Annotated[str | None, Query(alias="to", description="end, excluded; left out: now")]
MostQuery = Annotated[int, Query(ge=0, le=1000, description="number of triggers listed, those with most starts")]


class CostShareOut(Answer):
    """Cost and number of runs under one name."""

    name: str
    cost: float
    runs: int


class CostsOut(Answer):
    """Shares, the largest first, and the total. A trigger with several tags is counted under each."""

    items: list[CostShareOut]
    next_cursor: None
    cost: float
    runs: int


class TriggerDemandOut(Answer):
    """Starts per second that one trigger demands."""

    trigger: str
    rate: float


class DemandOut(Answer):
    """Starts per second that the active schedules demand, averaged over the day after `at`, against the limit.

    `execution_qps` 0: no limit. `most`: the triggers with most starts.
    """

    at: Time
    asked_rate: float
    execution_qps: float
    is_too_much: bool
    most: list[TriggerDemandOut]


@router.get("/costs", tags=["costs"], dependencies=[require(Role.VIEWER)])
def costs(
    services: ServicesDep,
    reach: ReachDep,
    by: By = "trigger",
    since: FromQuery = None,
    until: ToQuery = None,
    project: FilterQuery = None,
) -> CostsOut:
    """Return the cost of attempts that ended in [from, to), largest first, by present names and tags."""
    reachable = projects_to_list(reach, project)
    projects = reachable if project is None else [project]
    begins, ends = optional_moment(since, "from"), optional_moment(until, "to")
    return _costs(sum_costs(services.database, by, begins, ends, projects))


@router.get("/demand", tags=["doctor"], dependencies=[require(Role.VIEWER, Projects.ALL)])
def demand(services: ServicesDep, limit: MostQuery = 10) -> DemandOut:
    """Return the starts per second that all active schedules demand, against `execution_qps`."""
    with services.database.read() as connection:
        now = services.database.clock.now(connection)
    return _demand(now, demand_by_trigger(services.database), services.settings.execution_qps, limit)


def _costs(account: Account) -> CostsOut:
    shares = [CostShareOut(name=share.name, cost=share.amount, runs=share.runs) for share in account.shares]
    return CostsOut(items=shares, next_cursor=None, cost=account.amount, runs=account.runs)


def _demand(at: datetime, rates: Mapping[TriggerKey | str, float], allowed: float, most: int) -> DemandOut:
    total = sum(rates.values())
    demanding = [(trigger, rate) for trigger, rate in rates.items() if rate]
    largest = sorted(demanding, key=lambda item: (-item[1], str(item[0])))[:most]
    return DemandOut(
        at=utc_text(at),
        asked_rate=total,
        execution_qps=allowed,
        is_too_much=is_too_much(total, allowed),
        most=[TriggerDemandOut(trigger=str(trigger), rate=rate) for trigger, rate in largest],
    )

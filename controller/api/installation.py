"""The installation: probes (O-05), `doctor`, costs (X-08), and the starts per second that schedules demand (L-18)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request

from controller.api.answers import Answer, FilterQuery, Time
from controller.api.parameters import ReachDep, ServicesDep, optional_moment, projects_to_list
from controller.auth.requirements import Projects, public, require
from controller.problems import DOCUMENTED
from reconcile.decide.admission import is_too_much
from reconcile.decide.authority import Role
from reconcile.queries.doctor import demand_by_trigger, examine
from reconcile.report.installation_checks import Check
from reconcile.triggers.spending import Account, By, sum_costs
from revisions.clock import HostClock
from revisions.ids import TriggerKey, utc_text

probes = APIRouter(tags=["health"])
doctor_router = APIRouter(tags=["doctor"])
router = APIRouter()

FromQuery = Annotated[str | None, Query(alias="from", description="beginning, included; left out: unbounded")]
ToQuery = Annotated[str | None, Query(alias="to", description="end, excluded; left out: now")]
MostQuery = Annotated[int, Query(ge=0, le=1000, description="number of triggers listed, those with most starts")]


class HealthOut(Answer):
    """Answer of a probe."""

    status: Literal["ok"] = "ok"


class CheckOut(Answer):
    """One check. `ok` is false only for a fault; `hint` says what to do unless the level is `ok`."""

    name: str
    ok: bool
    level: Literal["ok", "warning", "fault"]
    detail: str
    hint: str


class DoctorOut(Answer):
    """All checks; `ok` if there is no fault among them."""

    ok: bool
    items: list[CheckOut]
    next_cursor: None


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


@probes.get("/healthz", responses=DOCUMENTED, dependencies=[public()])
async def healthz(request: Request) -> HealthOut:
    """Answer ok while the process and each of its parts run, whatever the state of the database."""
    request.app.state.services.condition.check_alive()
    return HealthOut()


@probes.get("/readyz", responses=DOCUMENTED, dependencies=[public()])
def readyz(services: ServicesDep) -> HealthOut:
    """Answer ok while the loop runs, the process is not stopping, and the database has a schema of this release."""
    services.condition.check_ready()
    services.database.check_schema()
    return HealthOut()


@doctor_router.get("/doctor", dependencies=[require(Role.VIEWER, Projects.ALL, diagnosis=True)])
def doctor(services: ServicesDep) -> DoctorOut:
    """Check everything that is known to go wrong, and say what to do about it.

    Answers also without a database, or over one of another schema.
    """
    checks = examine(services.database, services.settings.pace, HostClock(), services.settings.listen_url)
    return DoctorOut(ok=all(check.ok for check in checks), items=[_check(check) for check in checks], next_cursor=None)


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


def _check(check: Check) -> CheckOut:
    return CheckOut(name=check.name, ok=check.ok, level=check.level.value, detail=check.detail, hint=check.hint)


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

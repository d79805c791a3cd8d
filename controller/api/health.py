"""Health: probes of this process (O-05), and the examination of the whole installation."""

from typing import Literal

from fastapi import APIRouter, Request

from controller.api.answers import Answer
from controller.api.parameters import ServicesDep
from controller.auth.requirements import Projects, public, require
from controller.problems import DOCUMENTED
from reconcile.decide.authority import Role
from reconcile.queries.doctor import examine
from reconcile.report.installation_checks import Check
from revisions.clock import HostClock

probes = APIRouter(tags=["health"])
router = APIRouter(tags=["doctor"])


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


@router.get("/doctor", dependencies=[require(Role.VIEWER, Projects.ALL, diagnosis=True)])
def doctor(services: ServicesDep) -> DoctorOut:
    """Check everything that is known to go wrong, and say what to do about it.

    Answers also without a database, or over one of another schema.
    """
    checks = examine(services.database, services.settings.pace, HostClock(), services.settings.listen_url)
    return DoctorOut(ok=all(check.ok for check in checks), items=[_check(check) for check in checks], next_cursor=None)


def _check(check: Check) -> CheckOut:
    return CheckOut(name=check.name, ok=check.ok, level=check.level.value, detail=check.detail, hint=check.hint)

"""Parameters of routes: services, caller, names in the path, preconditions, query parameters."""

import re
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import Depends, Header, Query, Request

from controller.auth.access import PRINCIPAL, REACH
from controller.services import Services
from reconcile.decide.authority import Caller, Principal, Reach
from reconcile.decide.preconditions import Expected
from reconcile.decide.trace_context import parse
from revisions.errors import Fault, Forbidden, Invalid, NotFound, few
from revisions.ids import CalendarKey, TaskKey, TriggerKey, is_id, name_faults
from revisions.spec.notation import ScheduleError, instant

TRACEPARENT: Final = "triggerctl.traceparent"
"""ASGI scope key under which the request's own span is stored; it replaces the `traceparent` header."""
LONGEST_IDEMPOTENCY_KEY: Final = 255

_ETAG = re.compile(r'"(\d{1,18})"|(\d{1,18})')


async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


ServicesDep = Annotated[Services, Depends(_services)]


def check_schema(services: ServicesDep) -> None:
    """Raise Unavailable for a database of another schema, before anything is read from it."""
    services.gate.check()


async def refuse_unknown_parameters(request: Request) -> None:
    """Raise Invalid for query parameters that the route does not have, naming the nearest known one (R-18).

    A mistyped filter must not list everything.
    """
    if not request.query_params:
        return
    known = _query_names(request.scope["route"].dependant)
    sent = request.query_params.multi_items()
    faults = few(_unknown_parameter(name, known) for name in dict(sent) if name not in known)
    faults += [
        Fault(name, "stands there more than once", "send it once")
        for name in sorted(known)
        if sum(name == given for given, _ in sent) > 1
    ]
    _refuse(faults)


def _unknown_parameter(name: str, known: set[str]) -> Fault:
    if not known:
        return Fault(name, "is not a known parameter", "this takes none")
    return Fault.unknown(name, name, known, "parameter")


def _query_names(dependant: Any) -> set[str]:
    """Return the query parameters of a route and its dependencies, as FastAPI read them from the signatures."""
    names = {field.alias for field in dependant.query_params}
    return names.union(*map(_query_names, dependant.dependencies))


async def _caller(request: Request, idempotency_key: Annotated[str | None, Header()] = None) -> Caller:
    """Return the authenticated caller with the key by which a retry is recognised (R-04)."""
    if idempotency_key is not None and not (
        idempotency_key.isprintable() and 0 < len(idempotency_key) <= LONGEST_IDEMPOTENCY_KEY
    ):
        hint = f"1 to {LONGEST_IDEMPOTENCY_KEY} printable characters"
        raise Invalid.at("Idempotency-Key", "is not a key", hint)
    principal: Principal = request.scope[PRINCIPAL]
    span = parse(request.scope.get(TRACEPARENT) or request.headers.get("traceparent"))
    return Caller(
        principal.actor,
        idempotency_key=idempotency_key,
        scopes=principal.scopes,
        traceparent=str(span) if span else None,
        cause=principal.cause,
    )


CallerDep = Annotated[Caller, Depends(_caller)]


async def _reach(request: Request) -> Reach:
    reach: Reach = request.scope[REACH]
    return reach


ReachDep = Annotated[Reach, Depends(_reach)]
"""Projects in which the caller holds the role that the route requires."""


def refuse_outside(reach: Reach, project: str | None) -> None:
    """Raise Forbidden for a project outside the reach; None stands for all projects."""
    if not reach.covers(project):
        own = ", ".join(sorted(reach.projects or ()))
        what = f"project {project}" if project else "everything"
        raise Forbidden.hinted("project", f"you may not do this in {what}", f"name one of {own}")


def projects_to_list(reach: Reach, project: str | None) -> Collection[str] | None:
    """Return the projects that a list is limited to, None for all. Raises Forbidden for one outside the reach."""
    if project is not None:
        refuse_outside(reach, project)
    return reach.projects


async def _trigger_key(project: str, domain: str, task: str, name: str) -> TriggerKey:
    """Return the trigger's key from the path. Raises Invalid for a text that is not a name (R-01)."""
    key = TriggerKey(project, domain, task, name)
    _refuse(name_faults("", **key._asdict()))
    return key


async def _task_key(project: str, domain: str, name: str, version: str) -> TaskKey:
    """Return the task version's key from the path. Raises Invalid."""
    faults = name_faults("", project=project, domain=domain, task=name, version=version)
    _refuse([Fault("name" if fault.path == "task" else fault.path, fault.message, fault.hint) for fault in faults])
    return TaskKey(project, domain, name, version)


async def _calendar_key(project: str, name: str) -> CalendarKey:
    """Return the calendar's key from the path. Raises Invalid."""
    _refuse(name_faults("", project=project, name=name))
    return CalendarKey(project, name)


async def _id(id: str) -> str:
    """Return the id from the path in its stored form. Raises NotFound for a text that is not an id."""
    if not is_id(id):
        raise NotFound.hinted("id", f"there is nothing with the id {id!r}", "ids are 26 letters and digits")
    return id.upper()


IdPath = Annotated[str, Depends(_id)]
TriggerPath = Annotated[TriggerKey, Depends(_trigger_key)]
TaskPath = Annotated[TaskKey, Depends(_task_key)]
CalendarPath = Annotated[CalendarKey, Depends(_calendar_key)]


async def _precondition(
    if_match: Annotated[str | None, Header(description='the revision last read, as "N"')] = None,
    if_none_match: Annotated[str | None, Header(description="* : it must not exist")] = None,
) -> Expected:
    """Return the precondition of a change (R-04, R-05). Raises Invalid for one that cannot be understood."""
    if if_match is not None and if_none_match is not None:
        raise Invalid.at("If-Match", "stands beside If-None-Match", "send If-Match to change, If-None-Match to create")
    if if_none_match is not None:
        if if_none_match.strip() != "*":
            raise Invalid.at("If-None-Match", f"{if_none_match!r} is not *", "send * to create")
        return Expected(absent=True)
    if if_match is None:
        return Expected()
    tag = _ETAG.fullmatch(if_match.strip())
    if tag is None:
        raise Invalid.at("If-Match", f"{if_match!r} names no revision", 'send the revision you read, like "3"')
    return Expected(revision=int(tag[1] or tag[2]))


Precondition = Annotated[Expected, Depends(_precondition)]


async def _origin(
    origin: Annotated[
        str | None, Query(description="name of the folder that the trigger is applied from; left out: as it is")
    ] = None,
) -> str | None:
    """Return the folder that a deploy comes from (R-22). Raises Invalid for a text that is not a name."""
    if origin is not None:
        _refuse(name_faults("", origin=origin))
    return origin


OriginQuery = Annotated[str | None, Depends(_origin)]


def with_reason(caller: Caller, reason: str | None) -> Caller:
    """Return the caller with the reason from the request."""
    return replace(caller, reason=reason or "")


def moment(text: str, path: str) -> datetime:
    """Return the instant in a text. Raises Invalid at `path`."""
    try:
        return instant(text, path)
    except ScheduleError as error:
        raise Invalid.at(error.path, error.message, error.hint) from None


def optional_moment(text: str | None, path: str) -> datetime | None:
    """Return the instant in a text, None without one. Raises Invalid at `path`."""
    return moment(text, path) if text is not None else None


def etag(revision: int) -> str:
    """Return the ETag of a revision."""
    return f'"{revision}"'


def _refuse(faults: list[Fault]) -> None:
    if faults:
        raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)

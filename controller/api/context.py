"""What every route asks for: the services, who calls, which trigger, under which precondition."""

import re
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import Annotated

from fastapi import Depends, Header, Query, Request

from controller.services import Services
from reconcile.decide.authority import Principal, Reach
from reconcile.decide.preconditions import Expected
from reconcile.decide.trace_context import parse
from reconcile.triggers.caller import Caller
from revisions.errors import Fault, Forbidden, Invalid, NotFound
from revisions.ids import CalendarKey, TaskKey, TriggerKey, is_id, name_faults
from revisions.spec.notation import ScheduleError, instant

ACTOR = "triggerctl.actor"
"""Where the in-process command line leaves its actor in the ASGI scope; nothing that comes over a network sets it."""
PRINCIPAL, REACH = "triggerctl.principal", "triggerctl.reach"
"""Where the guard leaves who asks, and within which projects he may do what the route does."""
TRACEPARENT = "triggerctl.traceparent"
"""Where the span of a request is left, in the place of what the request itself is part of."""
LONGEST_KEY = 255

_ETAG = re.compile(r'"(\d{1,18})"|(\d{1,18})')


async def services(request: Request) -> Services:
    found: Services = request.app.state.services
    return found


Here = Annotated[Services, Depends(services)]


def usable(here: Here) -> None:
    """Raises Unavailable for a database of another schema, before anything is read from it."""
    here.gate.check()


async def caller(request: Request, idempotency_key: Annotated[str | None, Header()] = None) -> Caller:
    """Who asks, and under which key a retry is recognised (R-04)."""
    if idempotency_key is not None and not (idempotency_key.isprintable() and 0 < len(idempotency_key) <= LONGEST_KEY):
        raise Invalid.at("Idempotency-Key", "is not a key", f"1 to {LONGEST_KEY} printable characters")
    asking: Principal = request.scope[PRINCIPAL]
    part_of = parse(request.scope.get(TRACEPARENT) or request.headers.get("traceparent"))
    parent = str(part_of) if part_of else None
    return Caller(
        asking.actor,
        idempotency_key=idempotency_key,
        scopes=asking.scopes,
        traceparent=parent,
        cause=asking.cause,
    )


Asking = Annotated[Caller, Depends(caller)]


async def within(request: Request) -> Reach:
    """The projects in which who asks may do what the route does."""
    found: Reach = request.scope[REACH]
    return found


Within = Annotated[Reach, Depends(within)]


def refuse_outside(reach: Reach, project: str | None) -> None:
    """Raises Forbidden for a project that is named and not within reach, and for None, everything, which hardly is."""
    if not reach.covers(project):
        own = ", ".join(sorted(reach.projects or ()))
        what = f"project {project}" if project else "everything"
        raise Forbidden.hinted("project", f"{what} is beyond what you may do this with", f"name one of {own}")


async def trigger_key(project: str, domain: str, task: str, name: str) -> TriggerKey:
    """The trigger that the path names. Raises Invalid for what can be no name (R-01)."""
    key = TriggerKey(project, domain, task, name)
    _refuse(name_faults("", **key._asdict()))
    return key


async def task_key(project: str, domain: str, name: str, version: str) -> TaskKey:
    """The task version that the path names. Raises Invalid for what can be no name."""
    faults = name_faults("", project=project, domain=domain, task=name, version=version)
    _refuse([Fault("name" if fault.path == "task" else fault.path, fault.message, fault.hint) for fault in faults])
    return TaskKey(project, domain, name, version)


async def calendar_key(project: str, name: str) -> CalendarKey:
    """The calendar that the path names. Raises Invalid for what can be no name."""
    _refuse(name_faults("", project=project, name=name))
    return CalendarKey(project, name)


async def named_id(id: str) -> str:
    """The id that the path names, as it is kept. Raises NotFound for what can be none."""
    if not is_id(id):
        raise NotFound.hinted("id", f"there is nothing with the id {id!r}", "ids are 26 letters and digits")
    return id.upper()


NamedId = Annotated[str, Depends(named_id)]
Named = Annotated[TriggerKey, Depends(trigger_key)]
NamedTask = Annotated[TaskKey, Depends(task_key)]
NamedCalendar = Annotated[CalendarKey, Depends(calendar_key)]


async def expected(
    if_match: Annotated[str | None, Header(description='the revision last read, as "N"')] = None,
    if_none_match: Annotated[str | None, Header(description="* : it must not exist")] = None,
) -> Expected:
    """The precondition of a change (R-04, R-05). Raises Invalid when it cannot be understood."""
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


Precondition = Annotated[Expected, Depends(expected)]


async def origin(
    origin: Annotated[
        str | None, Query(description="the name of the folder it is applied from; left out, kept")
    ] = None,
) -> str | None:
    """The folder that a deploy comes from (R-22). Raises Invalid for what can be no name."""
    if origin is not None:
        _refuse(name_faults("", origin=origin))
    return origin


Origin = Annotated[str | None, Depends(origin)]


def listed(reach: Reach, project: str | None) -> Collection[str] | None:
    """The projects that a list keeps to, None for all. Raises Forbidden where it is asked for one beyond reach."""
    if project is not None:
        refuse_outside(reach, project)
    return reach.projects


def because(caller: Caller, reason: str | None) -> Caller:
    """Who asks, and the reason that was sent."""
    return replace(caller, reason=reason or "")


def moment(text: str | None, path: str) -> datetime | None:
    """The instant that a text names, None without one. Raises Invalid at `path`."""
    try:
        return instant(text, path) if text is not None else None
    except ScheduleError as error:
        raise Invalid.at(error.path, error.message, error.hint) from None


def etag(revision: int) -> str:
    return f'"{revision}"'


def _refuse(faults: list[Fault]) -> None:
    if faults:
        raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)

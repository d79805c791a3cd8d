"""The role that each route requires, declared at the route itself (O-06).

A route declares its requirement among its dependencies: `dependencies=[require(Role.VIEWER, Projects.NAMED)]`. The
guard reads the declarations of all routes once and checks each request before anything of its body is read. A route
without a declaration cannot be reached: it is answered as if it did not exist.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from re import Pattern
from typing import Any, Final

from fastapi import Depends, FastAPI, Request
from starlette.routing import compile_path

from reconcile.decide.authority import Role
from reconcile.runs.claim import RUN_TOKEN_PREFIX
from reconcile.triggers.credentials import TOKEN_PREFIX
from revisions.ids import is_id, name_faults

ADMITTED: Final = "triggerctl.admitted"
"""ASGI scope key under which the guard stores the requirement that a request has met."""


class Projects(Enum):
    """Projects in which the role must be held."""

    NAMED = auto()
    """The project in the path."""
    ANY = auto()
    """At least one; the route restricts itself to the caller's projects."""
    ALL = auto()
    """Every project."""


class RunTokens(Enum):
    """Use of a route by a run with the token it was started with."""

    ALLOWED = auto()
    OWN_RUN_ONLY = auto()
    """A run may use the route for itself, whatever its role, and for no other run."""
    REFUSED = auto()
    """The route takes a decision of a person."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """Right that a route requires. `role` None: no credential is needed.

    `diagnosis`: while the database is unavailable, callers who were admitted within the last hour still are.
    """

    role: Role | None
    projects: Projects = Projects.ANY
    runs: RunTokens = RunTokens.ALLOWED
    diagnosis: bool = False

    async def __call__(self, request: Request) -> None:
        """Refuse to run the route unless the guard has checked this very requirement."""
        if request.scope.get(ADMITTED) != self:
            raise RuntimeError(f"{request.method} {request.url.path} was reached without passing the guard")


def require(
    role: Role,
    projects: Projects = Projects.ANY,
    *,
    runs: RunTokens = RunTokens.ALLOWED,
    diagnosis: bool = False,
) -> Any:
    """Dependency of a route that only callers with the role may use."""
    return Depends(Requirement(role, projects, runs, diagnosis))


def public() -> Any:
    """Dependency of a route that everybody may use without a credential."""
    return Depends(Requirement(None))


_NAMES = ("project", "domain", "task", "name", "version", "id")


@dataclass(frozen=True, slots=True)
class MatchedRoute:
    """Route that matches a request's path, its requirements by method, and the path's parameters."""

    path: str
    requirements: Mapping[str, Requirement]
    parameters: Mapping[str, str]

    def resource(self) -> str | None:
        """Return `project/domain/task/name` or the id that the path names.

        None if a parameter is not a valid name: it may be a misplaced token or hold line breaks, so it is not logged.
        """
        names = {field: text for field, text in self.parameters.items() if field in _NAMES}
        if not names or not all(_is_name(field, text) for field, text in names.items()):
            return None
        return "/".join(names.values())


class RouteTable:
    """Requirements of all routes of an application, collected at the first request."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    def match(self, path: str) -> MatchedRoute | None:
        """Return the route for a request's path, None if no route with a requirement matches."""
        for pattern, route_path, requirements in self._patterns:
            if match := pattern.match(path):
                return MatchedRoute(route_path, requirements, match.groupdict())
        return None

    @cached_property
    def requirements(self) -> Mapping[str, Mapping[str, Requirement]]:
        """Requirements by path and method."""
        table: dict[str, dict[str, Requirement]] = {}
        for path, methods, requirement in _declarations(self._app.routes, ""):
            table.setdefault(path, {}).update(dict.fromkeys(methods, requirement))
        return table

    @cached_property
    def _patterns(self) -> list[tuple[Pattern[str], str, Mapping[str, Requirement]]]:
        return [(compile_path(path)[0], path, methods) for path, methods in self.requirements.items()]


def _declarations(routes: Iterable[Any], prefix: str) -> Iterator[tuple[str, Iterable[str], Requirement]]:
    """Yield path, methods and requirement of each route that declares one; FastAPI nests included routers."""
    for route in routes:
        if hasattr(route, "original_router"):
            yield from _declarations(route.original_router.routes, prefix + route.include_context.prefix)
        for dependency in getattr(route, "dependencies", ()):
            if isinstance(dependency.dependency, Requirement):
                yield prefix + route.path, route.methods, dependency.dependency


def _is_name(field: str, text: str) -> bool:
    if field == "id":
        return is_id(text)
    rule = "task" if field == "name" else field  # some routes name a task so, and tasks may have capital letters
    return not text.startswith((TOKEN_PREFIX, RUN_TOKEN_PREFIX)) and not name_faults("", **{rule: text})

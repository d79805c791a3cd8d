"""What each route takes: a row for every method and path; what has no row is not there for anybody (O-06).

The guard goes by this table alone, so a new route without a row cannot be reached; a test says so, too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from starlette.routing import compile_path

from reconcile.decide.authority import Role
from reconcile.runs.run_tokens import RUN_TOKEN_PREFIX
from reconcile.triggers.credentials import TOKEN_PREFIX
from revisions.ids import is_id, name_faults


class Where(Enum):
    """In which project the role must be held."""

    NAMED = auto()
    """In the one that the path names."""
    ANY = auto()
    """In any; the route itself keeps to those in which it is held."""
    ALL = auto()
    """In all of them."""
    OWN_RUN = auto()
    """As ANY; but a run says of itself alone, whatever its role, how it goes."""
    NOT_BY_RUNS = auto()
    """As ANY; but no run may: what waits for somebody's word does not wait for a task's."""


@dataclass(frozen=True, slots=True)
class Need:
    """What a route takes; `role` None: nothing, anybody may. `is_diagnosis`: it answers without a database, too,
    to whoever was let in lately."""

    role: Role | None
    where: Where = Where.ANY
    is_diagnosis: bool = False


_PUBLIC = Need(None)
_LOOK, _OPERATE, _DEPLOY = (Need(role, Where.NAMED) for role in (Role.VIEWER, Role.OPERATOR, Role.DEPLOYER))
_LOOK_ANY, _OPERATE_ANY, _DEPLOY_ANY, _ADMIN_ANY = map(Need, Role)
_CALLBACK = Need(Role.OPERATOR, Where.OWN_RUN)
_LOOK_ALL, _ADMIN_ALL = Need(Role.VIEWER, Where.ALL), Need(Role.ADMIN, Where.ALL)
_DIAGNOSE = Need(Role.VIEWER, Where.ALL, is_diagnosis=True)

API = "/api/v1"
_TRIGGER = f"{API}/triggers/{{project}}/{{domain}}/{{task}}/{{name}}"
_TASK = f"{API}/tasks/{{project}}/{{domain}}/{{name}}/{{version}}"
_CALENDAR = f"{API}/calendars/{{project}}/{{name}}"
_RUN = f"{API}/runs/{{id}}"

NEEDS: Final[Mapping[str, Mapping[str, Need]]] = {
    _TRIGGER: {"GET": _LOOK, "PUT": _DEPLOY, "DELETE": _DEPLOY},
    f"{_TRIGGER}/activate": {"POST": _OPERATE},
    f"{_TRIGGER}/deactivate": {"POST": _OPERATE},
    f"{_TRIGGER}/rollback": {"POST": _DEPLOY},
    f"{_TRIGGER}/rename": {"POST": _DEPLOY},
    f"{_TRIGGER}/fire": {"POST": _OPERATE},
    f"{_TRIGGER}/backfill": {"POST": _OPERATE},
    f"{_TRIGGER}/revisions": {"GET": _LOOK},
    f"{_TRIGGER}/revisions/{{number}}": {"GET": _LOOK},
    f"{_TRIGGER}/diff": {"GET": _LOOK},
    f"{_TRIGGER}/occurrences": {"GET": _LOOK},
    f"{_TRIGGER}/next": {"GET": _LOOK},
    f"{_TRIGGER}/explain": {"GET": _LOOK},
    f"{_TRIGGER}/audit": {"GET": _LOOK},
    f"{_TRIGGER}/catchup": {"GET": _LOOK},
    f"{_TRIGGER}/catchup/drop": {"POST": _OPERATE},
    f"{_TRIGGER}/catchup/rebase": {"POST": _OPERATE},
    f"{_TRIGGER}/deadlines": {"GET": _LOOK},
    f"{_TRIGGER}/state": {"GET": _LOOK, "PUT": _OPERATE, "DELETE": _OPERATE},
    f"{API}/triggers": {"GET": _LOOK_ANY},
    f"{API}/triggers:activate": {"POST": _OPERATE_ANY},
    f"{API}/triggers:deactivate": {"POST": _OPERATE_ANY},
    f"{API}/triggers:delete": {"POST": _DEPLOY_ANY},
    f"{API}/triggers:fire": {"POST": _OPERATE_ANY},
    f"{API}/next": {"POST": _LOOK_ANY},
    f"{API}/warnings": {"POST": _LOOK_ANY},
    _TASK: {"GET": _LOOK, "PUT": _DEPLOY, "DELETE": _DEPLOY},
    f"{API}/tasks": {"GET": _LOOK_ANY},
    _CALENDAR: {"GET": _LOOK, "PUT": _DEPLOY, "DELETE": _DEPLOY},
    f"{_CALENDAR}/revisions": {"GET": _LOOK},
    f"{API}/calendars": {"GET": _LOOK_ANY},
    f"{API}/freeze": {"POST": _OPERATE_ANY},
    f"{API}/unfreeze": {"POST": _OPERATE_ANY},
    f"{API}/blackouts": {"POST": _OPERATE_ANY},
    f"{API}/blackouts/{{id}}": {"DELETE": _OPERATE_ANY},
    f"{API}/holds": {"GET": _LOOK_ANY},
    f"{API}/runs": {"GET": _LOOK_ANY},
    _RUN: {"GET": _LOOK_ANY},
    f"{_RUN}/logs": {"GET": _LOOK_ANY},
    f"{_RUN}/approve": {"POST": Need(Role.OPERATOR, Where.NOT_BY_RUNS)},
    f"{_RUN}/cancel": {"POST": _OPERATE_ANY},
    f"{_RUN}/retry": {"POST": _OPERATE_ANY},
    f"{_RUN}/complete": {"POST": _CALLBACK},
    f"{_RUN}/heartbeat": {"POST": _CALLBACK},
    f"{API}/changes": {"GET": _LOOK_ANY},
    f"{API}/tokens": {"GET": _ADMIN_ANY, "POST": _ADMIN_ANY},
    f"{API}/tokens/{{id}}": {"DELETE": _ADMIN_ANY},
    f"{API}/verify": {"GET": _LOOK_ALL, "POST": _LOOK_ALL},
    f"{API}/checkpoint": {"GET": _ADMIN_ALL},
    f"{API}/rebuild": {"GET": _LOOK_ALL, "POST": _ADMIN_ALL},
    f"{API}/export": {"GET": _ADMIN_ALL},
    f"{API}/import": {"POST": _ADMIN_ALL},
    f"{API}/doctor": {"GET": _DIAGNOSE},
    f"{API}/costs": {"GET": _LOOK_ANY},
    f"{API}/demand": {"GET": _LOOK_ALL},
    "/": {"GET": _LOOK_ANY},
    "/triggers/{project}/{domain}/{task}/{name}": {"GET": _LOOK},
    "/runs/{id}": {"GET": _LOOK_ANY},
    "/sign-in": {"GET": _PUBLIC, "POST": _PUBLIC},
    "/sign-out": {"POST": _PUBLIC},
    "/static/{path:path}": {"GET": _PUBLIC, "HEAD": _PUBLIC},
    "/openapi.json": {"GET": _LOOK_ANY, "HEAD": _LOOK_ANY},
    "/metrics": {"GET": _DIAGNOSE},
    "/healthz": {"GET": _PUBLIC},
    "/readyz": {"GET": _PUBLIC},
}

_NAMING = ("project", "domain", "task", "name", "version", "id")
_PATTERNS = [(compile_path(path)[0], path) for path in NEEDS]


@dataclass(frozen=True, slots=True)
class Found:
    """The row of a path, and the names that stand in it."""

    path: str
    needs: Mapping[str, Need]
    names: Mapping[str, str]

    def of(self) -> str | None:
        """What the path names, `project/domain/task/name` or an id; None where that is nothing that can be called so.

        Then it may be anything, a token in the wrong place or a line feed, and goes into no log.
        """
        named = {field: text for field, text in self.names.items() if field in _NAMING}
        if not named or not all(_is_name(field, text) for field, text in named.items()):
            return None
        return "/".join(named.values())


def _is_name(field: str, text: str) -> bool:
    if field == "id":
        return is_id(text)
    rule = "task" if field == "name" else field  # on some routes it is a task's, which may have capital letters
    return not text.startswith((TOKEN_PREFIX, RUN_TOKEN_PREFIX)) and not name_faults("", **{rule: text})


def find(path: str) -> Found | None:
    """The row for a path as it was asked for."""
    for pattern, row in _PATTERNS:
        if match := pattern.match(path):
            return Found(row, NEEDS[row], match.groupdict())
    return None


def declared() -> Iterator[tuple[str, str]]:
    """(method, path) of every row."""
    yield from ((method, path) for path, needs in NEEDS.items() for method in needs)

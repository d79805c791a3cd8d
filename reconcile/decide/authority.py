"""Callers and their rights: what a principal may do in which project, and what a trigger may start for its author.

Access is denied unless a grant allows it. Every change has an author, a reason and a cause (invariant 7, O-06, X-13,
X-15).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple

from revisions.errors import Fault
from revisions.history.chain import canonical, value_of
from revisions.history.triggers import SYSTEM
from revisions.outcomes import RunSource

RUN_START: Final = "run.start"
"""The scope of a trigger that starts runs; what a trigger has whose spec says nothing."""
UNLIMITED: Final = '["*"]'
"""The author's scopes where nobody had to say who he is: without access control, or straight on the database."""
TAKE_OVER: Final = "have somebody who may deploy it deploy it again"
TRUSTED_SOURCES: Final = frozenset({RunSource.SCHEDULE, RunSource.MANUAL, RunSource.BACKFILL})
"""Sources whose input was written by somebody who may deploy or fire the trigger (E-15)."""


class Role(StrEnum):
    """Each may do what the ones before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    DEPLOYER = "deployer"
    ADMIN = "admin"

    @property
    def rank(self) -> int:
        return _RANKS[self]


_RANKS = {role: rank for rank, role in enumerate(Role)}


@dataclass(frozen=True, slots=True)
class Reach:
    """Projects in which something is allowed. None: in every project, and for resources of no project."""

    projects: frozenset[str] | None

    def covers(self, project: str | None) -> bool:
        """Return True if the reach includes the project. None is a resource of no single project."""
        return self.projects is None or (project is not None and project in self.projects)

    def joined(self, other: "Reach") -> "Reach":
        """Return the union of both."""
        if self.projects is None or other.projects is None:
            return EVERYWHERE
        return Reach(self.projects | other.projects)


EVERYWHERE: Final = Reach(None)
NOWHERE: Final = Reach(frozenset())


@dataclass(frozen=True, slots=True)
class Grant:
    """One role within some projects."""

    role: Role
    reach: Reach


@dataclass(frozen=True, slots=True)
class Rights:
    """All that somebody was granted."""

    grants: tuple[Grant, ...] = ()

    def reach(self, role: Role) -> Reach:
        """Return the projects in which these rights include the role."""
        found = NOWHERE
        for grant in self.grants:
            if grant.role.rank >= role.rank:
                found = found.joined(grant.reach)
        return found

    def role_in(self, project: str) -> Role | None:
        """The most that somebody is in a project, None for a stranger."""
        return max((one.role for one in self.grants if one.reach.covers(project)), key=lambda r: r.rank, default=None)


ALL_RIGHTS: Final = Rights((Grant(Role.ADMIN, EVERYWHERE),))


class CausingRun(NamedTuple):
    """A run that asks, and its trigger: what the runs that it starts were caused by (X-02)."""

    run_id: str
    trigger_id: str


@dataclass(frozen=True, slots=True)
class Principal:
    """Sender of a request: `actor` is its name in histories, `scopes` its identity as revisions store it.

    `cause` is the run whose token was sent; a run's token completes no other run.
    """

    actor: str
    rights: Rights
    scopes: str = UNLIMITED
    cause: CausingRun | None = None


@dataclass(frozen=True, slots=True)
class Sharing:
    """`projects` of each scope that is kept to some; a scope that is not listed is open to all."""

    projects: Mapping[str, Collection[str]] = field(default_factory=dict)

    def fault(self, scope: str | None, project: str) -> Fault | None:
        """Return the fault of a trigger that names a secret scope not open to its project, or None."""
        if scope is None or project in self.projects.get(scope, (project,)):
            return None
        hint = f"name a scope of {project}'s, or have the setting secret_scopes list {project} under {scope}"
        return Fault("spec.secret_scope", f"the secrets of scope {scope} are not for project {project}", hint)


@dataclass(frozen=True, slots=True)
class Caller:
    """Author of a change, with the reason given and the key by which a retry is recognised (R-04).

    `scopes` names the author in canonical JSON, so that the author's rights can be read later (X-15). `traceparent` is
    the W3C trace context of the request (O-04). `cause` is the run that makes the request, if one does (X-02).
    """

    actor: str = SYSTEM
    reason: str = ""
    idempotency_key: str | None = None
    scopes: str = UNLIMITED
    traceparent: str | None = None
    cause: CausingRun | None = None


def scopes_of(author: str) -> str:
    """Return the text that a revision stores about its author. The author's rights are read when they are needed."""
    return canonical({"author": author})


@lru_cache(maxsize=10_000)
def author_of(scopes: str) -> str | None:
    """The author that a revision's `scopes` name, None for one that nothing limits."""
    read: Any = value_of(scopes)
    return str(read["author"]) if isinstance(read, dict) else None


def of_run(project: str, scopes: str, authors: Mapping[str, Rights]) -> Rights:
    """Return a run's rights: to manage triggers of its project, within its author's present rights (X-13)."""
    author, role = author_of(scopes), Role.DEPLOYER
    if author is not None:
        given = authors[author].role_in(project)
        if given is None:
            return Rights()
        role = min(role, given, key=lambda one: one.rank)
    return Rights((Grant(role, Reach(frozenset({project}))),))


def refusal(wanted: Sequence[str], scopes: str, project: str, authors: Mapping[str, Rights]) -> str | None:
    """Why a trigger may not start a run, with the way out; None when it may (X-15).

    `wanted` are the scopes in its spec, `scopes` what its revision keeps of its author, `authors` what those have now.
    """
    if RUN_START not in wanted:
        return f"its scopes do not hold {RUN_START}: deploy it with scopes: [{RUN_START}], or without scopes"
    author = author_of(scopes)
    if author is None:
        return None
    role = authors[author].role_in(project)
    if role is None:
        return f"its author {author} has no access to {project} any more: {TAKE_OVER}"
    if role.rank < Role.OPERATOR.rank:
        return f"its author {author} is only {role} in {project} now, and starting takes {Role.OPERATOR}: {TAKE_OVER}"
    return None


def is_untrusted(source: RunSource) -> bool:
    """Return true when a run's input comes from outside: an event, a webhook, a file, a table or an unknown source."""
    return source not in TRUSTED_SOURCES


def grant_of(text: str) -> Grant:
    """Reads `role`, or `role:project,project`. Raises ValueError, saying how it is written."""
    role, _, named = text.partition(":")
    projects = frozenset(name.strip() for name in named.split(",") if name.strip())
    if role not in tuple(Role) or (":" in text and not projects):
        raise ValueError(f"{text!r} is no grant; write role or role:project,project, role one of {', '.join(Role)}")
    return Grant(Role(role), Reach(projects or None))


def grants_text(grants: Collection[Grant]) -> str:
    """Grants as canonical JSON, to be stored."""
    return canonical(sorted(([g.role.value, projects_list(g.reach)] for g in grants), key=str))


def rights_of(text: str) -> Rights:
    """Parse the text that `grants_text` returns."""
    return Rights(tuple(Grant(Role(role), Reach(projects_set(projects))) for role, projects in value_of(text)))


def projects_list(reach: Reach) -> list[str] | None:
    return None if reach.projects is None else sorted(reach.projects)


def projects_set(projects: Collection[str] | None) -> frozenset[str] | None:
    return None if projects is None else frozenset(projects)

"""Tokens: make, list, revoke; each within the projects of whoever does it (O-06)."""

from typing import Any

from fastapi import APIRouter

from controller.api.bodies import Sent, fields_schema
from controller.api.context import Asking, Here, NamedId, Within, moment
from controller.api.paging import MOST, Cursor, Limit, id_before, pack, page
from controller.services import Services
from controller.shapes.common import Page
from controller.shapes.tokens import CreatedTokenShape, RevokedTokenShape, TokenShape, token_shape
from reconcile.decide.authority import Grant, Reach, Role
from reconcile.triggers.credentials import create_token, is_within, revoke_token, triggers_denied
from revisions.errors import Fault, Invalid
from revisions.ids import name_faults
from revisions.store import tokens as store
from revisions.store.database import Connection

router = APIRouter(prefix="/tokens", tags=["tokens"])
_FIELDS: dict[str, Any] = {
    "name": {"type": "string"},
    "role": {"enum": list(Role)},
    "projects": {"type": "array", "items": {"type": "string"}, "description": "left out: all"},
    "expires_at": {"type": "string", "format": "date-time", "description": "left out: never"},
}


@router.post("", status_code=201, openapi_extra=fields_schema("name", "role", **_FIELDS))
def create(body: Sent, caller: Asking, within: Within, here: Here) -> CreatedTokenShape:
    """Makes a token; its secret stands in this answer and nowhere else."""
    said = body.fields("name", "role", name=str, role=str, projects=list, expires_at=str)
    if said["role"] not in tuple(Role):
        raise Invalid.at("role", f"{said['role']!r} is not known", f"one of {', '.join(Role)}")
    grant = Grant(Role(said["role"]), _reach(said["projects"]))
    made = create_token(
        here.database, here.observations, said["name"], grant, moment(said["expires_at"], "expires_at"), within, caller
    )
    return {**_shape(here, made.token), "token": made.secret}


@router.get("")
def listing(here: Here, within: Within, limit: Limit = 100, cursor: Cursor = None) -> Page[TokenShape]:
    """All tokens there ever were, newest first."""
    before = id_before(cursor)
    with here.database.read() as connection:
        now = here.database.clock.now(connection)
        found = _within(connection, within, before, limit + 1)
    return page(found, limit, lambda one: token_shape(one, now), lambda one: pack(one.token_id))


@router.delete("/{id}")
def revoke(id: NamedId, caller: Asking, within: Within, here: Here) -> RevokedTokenShape:
    """Ends a token now; one that is revoked already stays as it is."""
    made = revoke_token(here.database, here.observations, id, within, caller)
    return {**_shape(here, made), "denied_triggers": len(triggers_denied(here.database, made.name, within))}


def _within(connection: Connection, reach: Reach, before: str | None, number: int) -> list[store.Token]:
    """So many tokens within a reach; of others nothing is told, not by where a part ends either."""
    found: list[store.Token] = []
    while len(found) < number and (some := store.page(connection, before, MOST)):
        found += [one for one in some if is_within(reach, one)]
        before = some[-1].token_id
    return found[:number]


def _reach(projects: list[Any] | None) -> Reach:
    """Raises Invalid for what can be no projects; none at all would be a token for nothing."""
    if projects is None:
        return Reach(None)
    if not projects:
        raise Invalid.at("projects", "is empty, so that the token is good for nothing", "name some, or leave it out")
    for place, name in enumerate(projects):
        faults = name_faults("", project=name) if isinstance(name, str) else [Fault("", "must be a string")]
        if faults:
            raise Invalid.at(f"projects[{place}]", faults[0].message, faults[0].hint)
    return Reach(frozenset(projects))


def _shape(here: Services, one: store.Token) -> TokenShape:
    with here.database.read() as connection:
        return token_shape(one, here.database.clock.now(connection))

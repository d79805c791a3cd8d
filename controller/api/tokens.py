"""Tokens: create, list, revoke; within the caller's projects only (O-06)."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from controller.api.answers import (
    MOST_ITEMS,
    Answer,
    CursorQuery,
    LimitQuery,
    ListOut,
    Time,
    id_in,
    pack,
    page,
    time_text,
)
from controller.api.bodies import Moment, ProjectName, RequestBody, body, documented
from controller.api.parameters import CallerDep, IdPath, ReachDep, ServicesDep
from controller.auth.requirements import require
from controller.services import Services
from reconcile.decide.authority import Grant, Reach, Role, projects_list, rights_of
from reconcile.triggers.credentials import create_token, is_within, revoke_token, triggers_denied
from revisions.errors import Invalid
from revisions.ids import utc_text
from revisions.store import tokens as store
from revisions.store.database import Connection

router = APIRouter(prefix="/tokens", tags=["tokens"])


class CreateTokenIn(RequestBody):
    """Body of a request for a new token."""

    name: str
    role: Annotated[Role, Field(strict=False)]
    projects: list[ProjectName] | None = Field(None, description="left out: all projects")
    expires_at: Moment | None = Field(None, description="left out: never")


class TokenOut(Answer):
    """A token without its secret. `projects` null: all projects. `live`: neither expired nor revoked."""

    id: str
    name: str
    role: str
    projects: list[str] | None
    live: bool
    created_at: Time
    created_by: str
    expires_at: Time | None
    revoked_at: Time | None
    revoked_by: str | None
    last_used_at: Time | None


class CreatedTokenOut(TokenOut):
    """A new token with its secret, which is shown only in this answer."""

    token: str


class RevokedTokenOut(TokenOut):
    """A revoked token. `denied_triggers`: number of active triggers that start nothing now, for they need its name."""

    denied_triggers: int


@router.post("", status_code=201, openapi_extra=documented(CreateTokenIn), dependencies=[require(Role.ADMIN)])
def create(
    request: Annotated[CreateTokenIn, body(CreateTokenIn)], caller: CallerDep, reach: ReachDep, services: ServicesDep
) -> CreatedTokenOut:
    """Create a token. Its secret is in this answer and nowhere else."""
    if request.projects == []:
        raise Invalid.at("projects", "is empty, so that the token is good for nothing", "name some, or leave it out")
    grant = Grant(request.role, Reach(frozenset(request.projects) if request.projects is not None else None))
    created = create_token(
        services.database, services.observations, request.name, grant, request.expires_at, reach, caller
    )
    return CreatedTokenOut(**dict(_token_out(services, created.token)), token=created.secret)


@router.get("", dependencies=[require(Role.ADMIN)])
def listing(
    services: ServicesDep, reach: ReachDep, limit: LimitQuery = 100, cursor: CursorQuery = None
) -> ListOut[TokenOut]:
    """List all tokens, also revoked and expired ones, newest first."""
    before = id_in(cursor)
    with services.database.read() as connection:
        now = services.database.clock.now(connection)
        tokens = _within(connection, reach, before, limit + 1)
    return page(
        ListOut[TokenOut], tokens, limit, lambda token: token_out(token, now), lambda token: pack(token.token_id)
    )


@router.delete("/{id}", dependencies=[require(Role.ADMIN)])
def revoke(id: IdPath, caller: CallerDep, reach: ReachDep, services: ServicesDep) -> RevokedTokenOut:
    """Revoke a token. One that was revoked before stays as it is."""
    token = revoke_token(services.database, services.observations, id, reach, caller)
    denied = triggers_denied(services.database, token.name, reach)
    return RevokedTokenOut(**dict(_token_out(services, token)), denied_triggers=len(denied))


def _within(connection: Connection, reach: Reach, before: str | None, number: int) -> list[store.Token]:
    """Return so many tokens within a reach; also the cursor must not reveal others, so pages are filled up."""
    tokens: list[store.Token] = []
    while len(tokens) < number and (rows := store.page(connection, before, MOST_ITEMS)):
        tokens += [token for token in rows if is_within(reach, token)]
        before = rows[-1].token_id
    return tokens[:number]


def token_out(token: store.Token, now: datetime) -> TokenOut:
    """Return a token as the API shows it."""
    [grant] = rights_of(token.grants).grants
    return TokenOut(
        id=token.token_id,
        name=token.name,
        role=grant.role.value,
        projects=projects_list(grant.reach),
        live=token.is_live(now),
        created_at=utc_text(token.created_at),
        created_by=token.created_by,
        expires_at=time_text(token.expires_at),
        revoked_at=time_text(token.revoked_at),
        revoked_by=token.revoked_by,
        last_used_at=time_text(token.last_used_at),
    )


def _token_out(services: Services, token: store.Token) -> TokenOut:
    with services.database.read() as connection:
        return token_out(token, services.database.clock.now(connection))

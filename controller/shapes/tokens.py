"""Tokens as people see them: never their secret, but for the one time it is made."""

from datetime import datetime

from typing_extensions import TypedDict

from controller.shapes.common import Time, time_text
from reconcile.decide.authority import projects_list, rights_of
from revisions.ids import utc_text
from revisions.store.tokens import Token


class TokenShape(TypedDict):
    """A token; `projects` null means all. `live`: it can be used."""

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


class CreatedTokenShape(TokenShape):
    """A new token with the secret, which is told this once."""

    token: str


class RevokedTokenShape(TokenShape):
    """A token that was ended. `denied_triggers`: so many active triggers start nothing for want of its name."""

    denied_triggers: int


def token_shape(one: Token, now: datetime) -> TokenShape:
    [grant] = rights_of(one.grants).grants
    return {
        "id": one.token_id,
        "name": one.name,
        "role": grant.role.value,
        "projects": projects_list(grant.reach),
        "live": one.is_live(now),
        "created_at": utc_text(one.created_at),
        "created_by": one.created_by,
        "expires_at": time_text(one.expires_at),
        "revoked_at": time_text(one.revoked_at),
        "revoked_by": one.revoked_by,
        "last_used_at": time_text(one.last_used_at),
    }

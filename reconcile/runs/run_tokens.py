"""Run tokens: created when a run is claimed, valid for its project while that attempt is under way (X-13)."""

import secrets
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from reconcile.decide import authority
from reconcile.decide.authority import CausingRun, Principal
from reconcile.plugins import LaunchError
from reconcile.runs import launch
from reconcile.triggers import credentials
from reconcile.triggers.credentials import hash_token
from revisions.store import claims
from revisions.store.claims import Claimed
from revisions.store.database import Connection, Database

RUN_TOKEN_PREFIX: Final = "tcr_"
AFTER_TIMEOUT: Final = timedelta(minutes=1)
"""Validity of a run's token beyond the task's timeout, so that the run can still report its end."""


def create_run_tokens(connection: Connection, claimed: Sequence[Claimed]) -> Mapping[str, str]:
    """Create a token for each run that was just claimed, and return the tokens by run id.

    Only hashes are stored. Whatever ends the claim removes the hash, and with it the token's validity.
    """
    if not claimed:
        return {}
    tokens = {claim.run.id: RUN_TOKEN_PREFIX + secrets.token_urlsafe(32) for claim in claimed}
    claims.set_token_hashes(connection, {run_id: hash_token(token) for run_id, token in tokens.items()})
    return tokens


def principal_of_run(database: Database, token: str) -> Principal | None:
    """Return the principal of a run token; None for a token that is unknown or whose run is over."""
    with database.read() as connection:
        claimed = claims.by_token(connection, hash_token(token))
        if claimed is None or claimed.scopes is None:
            return None
        now = database.clock.now(connection)
        try:
            ends_at = (claimed.run.started_at or now) + launch.timeout_of(claimed) + AFTER_TIMEOUT
        except LaunchError:
            return None
        if now >= ends_at:
            return None
        rights = credentials.rights_of_authors(connection, [claimed.scopes], now)
    return Principal(
        f"run:{claimed.run.id} of {claimed.trigger}",
        authority.of_run(claimed.run.project, claimed.scopes, rights),
        claimed.scopes,
        CausingRun(claimed.run.id, claimed.run.trigger_id),
    )

"""Run tokens: made when a run is claimed, good for its project while that attempt goes on (X-13)."""

import secrets
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from reconcile.decide import authority
from reconcile.decide.authority import CausingRun, Principal
from reconcile.protocols import LaunchError
from reconcile.runs import launch
from reconcile.triggers import authors
from reconcile.triggers.credentials import hashed
from revisions.store import claims
from revisions.store.claims import Claimed
from revisions.store.database import Connection, Database

RUN_TOKEN_PREFIX: Final = "tcr_"
AFTER_TIMEOUT: Final = timedelta(minutes=1)
"""How long the token of a run outlives the task's timeout, so that the run can still report its end."""


def create_run_tokens(connection: Connection, claimed: Sequence[Claimed]) -> Mapping[str, str]:
    """Create a token for each run that was just claimed, and return the tokens by run id.

    A token is good as long as the run goes on in this attempt: ending the claim removes the hash.
    """
    if not claimed:
        return {}
    tokens = {run.run.id: RUN_TOKEN_PREFIX + secrets.token_urlsafe(32) for run in claimed}
    claims.set_token_hashes(connection, {run_id: hashed(token) for run_id, token in tokens.items()})
    return tokens


def principal_of_run(database: Database, token: str) -> Principal | None:
    """Return the principal of a run token; None for a token that is unknown or whose run is over."""
    with database.read() as connection:
        claimed = claims.by_token(connection, hashed(token))
        if claimed is None or claimed.scopes is None:
            return None
        now = database.clock.now(connection)
        try:
            ends_at = (claimed.run.started_at or now) + launch.timeout_of(claimed) + AFTER_TIMEOUT
        except LaunchError:
            return None
        if now >= ends_at:
            return None
        rights = authors.rights(connection, [claimed.scopes], now)
    return Principal(
        f"run:{claimed.run.id} of {claimed.trigger}",
        authority.of_run(claimed.run.project, claimed.scopes, rights),
        claimed.scopes,
        CausingRun(claimed.run.id, claimed.run.trigger_id),
    )

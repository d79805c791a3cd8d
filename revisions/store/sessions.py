"""Sessions with PostgreSQL: the timeouts that each has, and whether a pooler stands between (O-08, O-09)."""

from typing import Any

import psycopg

SESSION_TIMEOUTS = {
    "idle_in_transaction_session_timeout": "10s",
    "lock_timeout": "5s",
    "statement_timeout": "30s",
}
"""Below the lease, so that a stalled participant cannot hold up the others (O-08)."""
TRANSACTION_TIMEOUT = "40s"
"""Ends a client that stalls in the middle of a pipeline, with some statements sent and some not: the server does not
count it as idle. PostgreSQL has this timeout since version 17."""
TCP_USER_TIMEOUT_MILLISECONDS = 10_000
CONNECT_SECONDS = 5
_REFUSED = "unsupported startup parameter"
"""What PgBouncer answers to a timeout that a session would begin with."""


def connect(address: str = "", **given: Any) -> psycopg.Connection[Any]:
    """A session; its timeouts hold from the start, unless a pooler is between: then each transaction has to set them.

    A dead peer is noticed where nothing is sent, too. Raises psycopg's errors.
    """
    arguments: dict[str, Any] = {
        "connect_timeout": CONNECT_SECONDS,
        "tcp_user_timeout": TCP_USER_TIMEOUT_MILLISECONDS,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "application_name": "triggerctl",
    }
    options = " ".join(f"-c {name}={value}" for name, value in SESSION_TIMEOUTS.items())
    try:
        connection = psycopg.connect(address, **{**arguments, "options": options, **given})
    except psycopg.OperationalError as error:
        if _REFUSED not in str(error):
            raise
        connection = psycopg.connect(address, **{**arguments, **given})
    connection.prepare_threshold = None  # psycopg would DEALLOCATE ALL when it rolls back: what we prepared, too
    return connection


def is_pooled(connection: psycopg.Connection[Any]) -> bool:
    """Whether a pooler is between, in whatever mode: who answers is not who was connected to.

    A pooler makes up the number of the backend that it tells its client, for any of its sessions may serve the next
    transaction.
    """
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    return row is not None and row[0] != connection.info.backend_pid


def timeouts(server_version: int) -> dict[str, str]:
    """Those that a transaction is to set for itself behind a pooler."""
    if server_version < 170_000:
        return SESSION_TIMEOUTS
    return SESSION_TIMEOUTS | {"transaction_timeout": TRANSACTION_TIMEOUT}

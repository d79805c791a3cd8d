"""Sessions with PostgreSQL: their timeouts, and whether a pooler stands between (O-08, O-09)."""

from typing import Any

import psycopg

SESSION_TIMEOUTS = {
    "idle_in_transaction_session_timeout": "10s",
    "lock_timeout": "5s",
    "statement_timeout": "30s",
}
"""Below the lease, so that a stalled participant cannot delay others (O-08)."""
TRANSACTION_TIMEOUT = "40s"
"""Ends a client that stalls within a pipeline: the server does not count it as idle. PostgreSQL 17 and later."""
TCP_USER_TIMEOUT_MILLISECONDS = 10_000
CONNECT_SECONDS = 5
_REFUSED = "unsupported startup parameter"
"""PgBouncer's answer to timeouts among the startup parameters."""


def connect(address: str = "", **given: Any) -> psycopg.Connection[Any]:
    """Open a session with timeouts. Through a pooler it has none, and each transaction must set them.

    Keepalives detect a dead peer while nothing is sent. Raises psycopg's errors.
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
    """Return True when a pooler stands between, in any mode.

    A pooler invents the backend number that it tells its client, so it differs from the one that answers.
    """
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    return row is not None and row[0] != connection.info.backend_pid


def timeouts(server_version: int) -> dict[str, str]:
    """Return the timeouts that a transaction must set for itself behind a pooler."""
    if server_version < 170_000:
        return SESSION_TIMEOUTS
    return SESSION_TIMEOUTS | {"transaction_timeout": TRANSACTION_TIMEOUT}

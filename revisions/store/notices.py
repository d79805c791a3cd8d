"""Wake-ups through the database: an id and nothing else, so that a lost or doubled one is harmless."""

from sqlalchemy import Connection, bindparam, func, select

CHANGES = "triggerctl_changes"
"""Sent with every row of the feed: the trigger's id."""
RUNS = "triggerctl_runs"
_NOTIFY = select(func.pg_notify(bindparam("channel"), bindparam("payload")))


def runs_pending(connection: Connection) -> None:
    """Tells the runners that there is something to claim; sent when the transaction commits."""
    if connection.dialect.name == "postgresql":
        connection.execute(_NOTIFY, {"channel": RUNS, "payload": ""})

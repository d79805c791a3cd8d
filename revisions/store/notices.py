"""Wake-ups through the database: an id and nothing else, so that a lost or doubled one is harmless."""

from sqlalchemy import Connection, bindparam, func, select

CHANGES = "triggerctl_changes"
RUNS = "triggerctl_runs"
_NOTIFY = select(func.pg_notify(bindparam("channel"), bindparam("payload")))


def changed(connection: Connection, trigger_id: str) -> None:
    """Tells the loops that a trigger has a new revision; sent when the transaction commits."""
    _notify(connection, CHANGES, trigger_id)


def runs_pending(connection: Connection) -> None:
    """Tells the runners that there is something to claim."""
    _notify(connection, RUNS, "")


def _notify(connection: Connection, channel: str, payload: str) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(_NOTIFY, {"channel": channel, "payload": payload})

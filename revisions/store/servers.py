"""Which database it is that answers."""

from dataclasses import dataclass

from sqlalchemy import Connection, text

from revisions.store.pipeline import POOLED


@dataclass(frozen=True, slots=True)
class Server:
    """`major` is PostgreSQL's; SQLite is a library and has none. `is_pooled`: a pooler is before it."""

    name: str
    version: str
    major: int | None
    is_pooled: bool = False


def describe(connection: Connection) -> Server:
    """The server's own account of itself."""
    if connection.dialect.name != "postgresql":
        return Server("SQLite", str(connection.execute(text("SELECT sqlite_version()")).scalar_one()), None)
    told = "SELECT current_setting('server_version'), current_setting('server_version_num')::int / 10000"
    version, major = connection.execute(text(told)).one()
    return Server("PostgreSQL", str(version).split(" ")[0], int(major), connection.info[POOLED])

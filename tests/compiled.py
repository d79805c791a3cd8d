"""Cache of compiled SQL statements, shared by all tests of one worker process."""

from typing import Any

from sqlalchemy import Connection, Engine, event


class StatementCache(dict[Any, Any]):
    """Cache keyed by the kind of dialect.

    SQLAlchemy's own cache belongs to a dialect object and is lost with each test's engine.
    """

    def get(self, key: tuple[Any, ...], default: Any = None) -> Any:
        return super().get(_by_dialect_kind(key), default)

    def __setitem__(self, key: tuple[Any, ...], compiled: Any) -> None:
        super().__setitem__(_by_dialect_kind(key), compiled)


def share_compiled_statements() -> None:
    """Use one cache for every connection that is opened in this process from now on."""
    compiled = StatementCache()

    @event.listens_for(Engine, "engine_connect")
    def set_cache(connection: Connection) -> None:
        connection.execution_options(compiled_cache=compiled)


def _by_dialect_kind(key: tuple[Any, ...]) -> tuple[Any, ...]:
    dialect, *statement = key
    return (type(dialect), *statement)

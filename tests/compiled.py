"""Statements compiled once for all tests of a worker, as in a controller that lives long."""

from typing import Any

from sqlalchemy import Connection, Engine, event


class Compiled(dict[Any, Any]):
    """By kind of dialect: SQLAlchemy's own, by dialect, is lost with each test's engine."""

    def get(self, key: tuple[Any, ...], default: Any = None) -> Any:
        return super().get(_of_kind(key), default)

    def __setitem__(self, key: tuple[Any, ...], compiled: Any) -> None:
        super().__setitem__(_of_kind(key), compiled)


def share() -> None:
    """From now on, for whatever connects in this process."""
    compiled = Compiled()

    @event.listens_for(Engine, "engine_connect")
    def connected(connection: Connection) -> None:
        connection.execution_options(compiled_cache=compiled)


def _of_kind(key: tuple[Any, ...]) -> tuple[Any, ...]:
    dialect, *statement = key
    return (type(dialect), *statement)

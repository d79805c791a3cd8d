"""A database whose connection can be cut, for tests of what happens then."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import func, select

from reconcile.observations.observation import Observation, Observations
from revisions.errors import Unavailable
from revisions.store.database import Connection, Database
from revisions.store.run_tables import runs


class UnreliableDatabase(Database):
    """Shares engine, lock and clock with a real database, and can be cut off from it."""

    def __init__(self, database: Database) -> None:
        vars(self).update(vars(database))
        self._is_away = False
        self._lost_status: str | None = None

    @contextmanager
    def read(self) -> Iterator[Connection]:
        self._check()
        with super().read() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        self._check()
        before = self._count()
        with super().write() as connection:
            yield connection
        if self._count() > before:
            self._lost_status = None
            raise Unavailable("the connection died after the commit")

    @contextmanager
    def away(self) -> Iterator[None]:
        """Refuse every transaction inside the block."""
        self._is_away = True
        yield
        self._is_away = False

    @contextmanager
    def away_after(self, kind: type[Observation], observations: Observations) -> Iterator[None]:
        """Refuse every transaction inside the block once an observation of this class was emitted."""

        def leave(observation: Observation) -> None:
            self._is_away |= isinstance(observation, kind)

        unsubscribe = observations.subscribe(leave)
        yield
        unsubscribe()
        self._is_away = False

    @contextmanager
    def losing_commit(self, status: str) -> Iterator[None]:
        """Raise Unavailable after the first transaction of the block that commits a run in this status."""
        self._lost_status = status
        yield
        assert self._lost_status is None

    def _check(self) -> None:
        if self._is_away:
            raise Unavailable("gone")

    def _count(self) -> int:
        """Return the number of runs in the status whose commit is to be lost."""
        if self._lost_status is None:
            return 0
        with super().read() as connection:
            return connection.execute(select(func.count()).where(runs.c.status == self._lost_status)).scalar_one()

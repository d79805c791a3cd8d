"""Reading pages of a trigger's history, with a million revisions in the table against a thousand."""

import time

from sqlalchemy import text

from benchmarks.histories import begin, prolong
from benchmarks.ratio import Ratio
from benchmarks.server import fresh_database
from benchmarks.subjects import trigger
from revisions.ids import TriggerKey
from revisions.store import revisions as revision_store
from revisions.store import triggers as store
from revisions.store.database import Database

SMALL, LARGE = 1_000, 1_000_000
PAGE = 100
SECONDS = 2.0
ROUNDS = 5
GOAL = 1 / 1.5


def measure() -> list[Ratio]:
    """Return the medians of five rounds, each reading the newest page and one from the middle in turn."""
    measured: dict[int, list[float]] = {}
    with fresh_database() as database:
        begin(database, trigger("subject"))
        for revisions in (SMALL, LARGE):
            prolong(database, "subject", revisions)
            with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.execute(text("VACUUM ANALYZE trigger_revisions"))
            rounds = [_pages(database, revisions) for _ in range(ROUNDS)]
            measured[revisions] = sorted(rounds)
    middle = ROUNDS // 2
    name = f"a page of history with {LARGE:,} revisions, against {SMALL:,}"
    return [Ratio(name, measured[LARGE][middle], measured[SMALL][middle], goal=GOAL)]


def _pages(database: Database, revisions: int) -> float:
    key, done, began = TriggerKey("acme", "production", "report", "subject"), 0, time.monotonic()
    while time.monotonic() - began < SECONDS:
        for before in (None, revisions // 2):
            with database.read() as connection:
                current = store.get(connection, key)
                assert current is not None
                rows = revision_store.page(connection, current.trigger_id, before, PAGE)
            assert len(rows) == PAGE
            done += 1
    return done / (time.monotonic() - began)

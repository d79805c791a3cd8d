"""A copy of a database becomes an installation of its own: work of the original's elsewhere is none of its (X-10)."""

from datetime import timedelta

from reconcile.history.restoring import refuse_company
from revisions.store import installations
from revisions.store.database import Database


def separate(database: Database, interval: timedelta) -> str:
    """Gives it another id, and answers that.

    Raises Conflict when a controller was seen within the last resync intervals, for its work is known by the old one.
    """
    way = "do this to a copy before anything runs on it"
    refuse_company(database, interval, "separate", "their work would be another's", way)
    with database.write() as connection:
        return installations.renew(connection, database.clock.now(connection))

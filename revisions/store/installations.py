"""Which installation a database is: an id by which what runs elsewhere is known to be its own (X-10).

A copy of the database has the same one until it is given another.
"""

from datetime import datetime

from sqlalchemy import Connection, delete, insert, select

from revisions.ids import fresh
from revisions.store.tables import installation


def current(connection: Connection) -> str:
    """Its id."""
    found: str = connection.execute(select(installation.c.installation_id)).scalar_one()
    return found


def renew(connection: Connection, now: datetime) -> str:
    """Makes it another installation, and answers its id."""
    remove(connection)
    made = fresh(now)
    connection.execute(insert(installation).values(installation_id=made))
    return made


def remove(connection: Connection) -> None:
    """Removes the id, for another that follows in the same transaction."""
    connection.execute(delete(installation))

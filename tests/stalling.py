"""Standing still in the middle of a transaction, for which PostgreSQL ends whoever does so after a moment.

The timeouts as they ship are looked at in the sessions that have them; here they are cut short where the standing still
begins, so that nobody loses a transaction for being slow on the way there.
"""

import psycopg

from revisions.store.database import Connection

MOMENT = "400ms"


def between_statements(connection: Connection) -> None:
    """With nothing under way."""
    connection.exec_driver_sql(f"SET LOCAL idle_in_transaction_session_timeout = '{MOMENT}'")


def within_a_turn(connection: Connection) -> None:
    """With some statements sent and some not; nobody is idle by the server's account."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.pgconn.enter_pipeline_mode()
    for span in ("0", MOMENT):  # a timer that runs is not set anew, only one that does not
        driver.pgconn.send_query_params(f"SET LOCAL transaction_timeout = '{span}'".encode(), None)
    driver.pgconn.send_query_params(b"UPDATE tasks SET deleted = true", None)
    driver.pgconn.send_flush_request()
    driver.pgconn.flush()

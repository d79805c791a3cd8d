"""Participants that stop in the middle of a transaction until PostgreSQL ends their session.

The timeouts are shortened only where the participant stops, so that a slow machine does not end it before. That
sessions have the product's own timeouts is tested elsewhere.
"""

import psycopg

from revisions.store.database import Connection

TIMEOUT = "400ms"


def between_statements(connection: Connection) -> None:
    """Stop while no statement is under way."""
    connection.exec_driver_sql(f"SET LOCAL idle_in_transaction_session_timeout = '{TIMEOUT}'")


def within_a_turn(connection: Connection) -> None:
    """Stop with some statements of a pipeline sent and others not, so that the server does not count the session as
    idle."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.pgconn.enter_pipeline_mode()
    for span in ("0", TIMEOUT):  # PostgreSQL does not change a running timer, so it is switched off first
        driver.pgconn.send_query_params(f"SET LOCAL transaction_timeout = '{span}'".encode(), None)
    driver.pgconn.send_query_params(b"UPDATE tasks SET deleted = true", None)
    driver.pgconn.send_flush_request()
    driver.pgconn.flush()

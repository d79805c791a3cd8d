"""A turn on the wire to PostgreSQL: statements that are sent at once and answered at once.

By libpq's pipeline mode itself, for psycopg's cursors send and wait statement by statement, in its pipeline too: that
costs the client three times as much, and at every wait threads that have work stand in each other's way.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from psycopg import Connection, OperationalError, abc, generators
from psycopg.abc import PQGen
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGconn, PGresult


class Statement(NamedTuple):
    """What is prepared once a connection under a name that nothing else has, and what makes a row of values."""

    name: bytes
    text: bytes
    row: Callable[[Sequence[Any]], Any]


def turn(
    connection: Connection[Any], prepared: set[bytes] | None, *sent: tuple[Statement, Sequence[Any]]
) -> list[list[Any]]:
    """The rows of each statement, which the server ran one after another; `prepared` names what it knows already.

    With None nothing is prepared by name: behind a pooler another session, which knows none, may answer the next time.
    Raises the first error there was; what stood after it was not run.
    """
    wire, values = connection.pgconn, Transformer(connection)
    bound = [values.dump_sequence(given, [PyFormat.TEXT] * len(given)) for _, given in sent]
    fresh = {} if prepared is None else {one.name: one.text for one, _ in sent if one.name not in prepared}
    wire.enter_pipeline_mode()
    try:
        for name, text in fresh.items():
            wire.send_prepare(name, text)
        for (statement, _), parameters in zip(sent, bound, strict=True):
            if prepared is None:
                wire.send_query_params(statement.text, parameters)
            else:
                wire.send_query_prepared(statement.name, parameters)
        wire.pipeline_sync()
        answers = connection.wait(_answers(wire))
    finally:
        if wire.status == ConnStatus.OK:
            wire.exit_pipeline_mode()
    if prepared is not None:
        prepared.update(name for name, one in zip(fresh, answers, strict=False) if one.status == ExecStatus.COMMAND_OK)
    _refuse(wire, answers)
    of_statements = zip(sent, answers[len(fresh) :], strict=True)
    return [_rows(values, answer, statement) for (statement, _), answer in of_statements]


def _answers(wire: PGconn) -> PQGen[list[PGresult]]:
    """What comes up to the end of the turn, or of the connection."""
    yield from generators.send(wire)
    answers: list[PGresult] = []
    while (results := (yield from generators.fetch_many(wire))) and results[0].status != ExecStatus.PIPELINE_SYNC:
        answers.append(results[0])
    return answers


def _refuse(wire: PGconn, answers: Sequence[PGresult]) -> None:
    for answer in answers:
        if answer.status == ExecStatus.FATAL_ERROR:
            error = error_from_result(answer)
            raise error if wire.status == ConnStatus.OK else OperationalError(str(error))


def _rows(values: abc.Transformer, answer: PGresult, statement: Statement) -> list[Any]:
    if not answer.ntuples:
        return []
    values.set_pgresult(answer)
    return values.load_rows(0, answer.ntuples, statement.row)

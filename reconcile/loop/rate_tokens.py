"""Tokens that all replicas share: live occurrences first, a tenth kept for what is caught up (L-09, L-10)."""

import sys
from collections.abc import Sequence
from datetime import datetime

from reconcile.decide import admission
from reconcile.decide.admission import CATCHUP_SHARE, Pace
from reconcile.decide.catchup import CatchupPlan
from revisions.store import backlogs as backlog_store
from revisions.store import rates
from revisions.store.database import Connection

STARTS, CATCHUP = "starts", "catchup"
"""The bucket of all scheduled and caught-up starts, and that of the share kept for catching up."""

Wants = Sequence[tuple[str, CatchupPlan]]
"""Plans, each with its project."""


def for_live(
    connection: Connection, pace: Pace, wants: Wants, now: datetime, *, in_turn: bool, waiting: int
) -> list[int]:
    """Tokens for each of these plans; the status rows are locked.

    While others wait for a token only those whose turn it is get one; `waiting` is how many of these wait. What is
    kept for catching up is left, as long as there is a backlog.
    """
    wanted = sum(len(plan.starts) for _, plan in wants)
    if wanted == 0 or pace.execution_qps == 0:
        return [len(plan.starts) for _, plan in wants]
    if not in_turn and rates.more_waiting_than(connection, waiting):
        return [0] * len(wants)
    reserve = _kept(connection, pace, now) if backlog_store.any_open(connection) else 0
    tokens = _take(connection, STARTS, wanted, now, pace.execution_qps, pace.execution_burst, reserve)
    shares = admission.share_tokens([(project, plan.starts) for project, plan in wants], tokens)
    if in_turn or tokens < wanted:
        served = {project for (project, _), share in zip(wants, shares, strict=True) if share}
        rates.record_turns(connection, served, now)
    return shares


def for_catchup(connection: Connection, pace: Pace, wants: Wants, now: datetime) -> list[int]:
    """Tokens for these parts of backlogs: what is kept for them, and what live occurrences leave."""
    wanted = sum(len(plan.starts) for _, plan in wants)
    if wanted == 0 or pace.execution_qps == 0:
        return [len(plan.starts) for _, plan in wants]
    if rates.more_waiting_than(connection, 0):
        wanted = min(wanted, _kept(connection, pace, now))
    tokens = _take(connection, STARTS, wanted, now, pace.execution_qps, pace.execution_burst)
    _take(connection, CATCHUP, tokens, now, *_share(pace))
    return admission.share_tokens([(project, plan.starts) for project, plan in wants], tokens)


def available(connection: Connection, pace: Pace, now: datetime) -> int:
    """Tokens there are just now for whatever waits; nobody is kept from taking them first."""
    if pace.execution_qps == 0:
        return sys.maxsize
    empty_until = rates.empty_until(connection, STARTS)
    return admission.available(empty_until, now, per_second=pace.execution_qps, burst=pace.execution_burst)


def _share(pace: Pace) -> tuple[float, int]:
    return pace.execution_qps / CATCHUP_SHARE, max(1, pace.execution_burst // CATCHUP_SHARE)


def _kept(connection: Connection, pace: Pace, now: datetime) -> int:
    per_second, burst = _share(pace)
    return admission.available(rates.empty_until(connection, CATCHUP), now, per_second=per_second, burst=burst)


def _take(
    connection: Connection, name: str, wanted: int, now: datetime, qps: float, burst: int, reserve: int = 0
) -> int:
    def decide(empty_until: datetime) -> tuple[int, datetime]:
        return admission.bucket(empty_until, now, wanted, per_second=qps, burst=burst, reserve=reserve)

    return rates.take_tokens(connection, name, now, decide)

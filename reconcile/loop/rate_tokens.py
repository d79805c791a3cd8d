"""Rate tokens shared by all replicas: live occurrences come first, a tenth is kept for backlogs (L-09, L-10)."""

import sys
from collections.abc import Sequence
from datetime import datetime

from reconcile.decide import admission
from reconcile.decide.admission import CATCHUP_SHARE, Pace
from reconcile.decide.catchup import CatchupPlan
from revisions.store import backlogs as backlog_store
from revisions.store import rates
from revisions.store.database import Connection

STARTS = "starts"
"""Bucket that every scheduled or caught-up start takes a token from."""
CATCHUP = "catchup"
"""Bucket that measures the share kept for backlogs; their starts take a token from both."""

Wants = Sequence[tuple[str, CatchupPlan]]
"""Plans, each with the project of its trigger."""


def take_for_live(
    connection: Connection, pace: Pace, wants: Wants, now: datetime, *, in_turn: bool, waiting: int
) -> list[int]:
    """Take tokens for the starts of a due pass, and return the number for each plan.

    While triggers wait for a token, only a pass `in_turn`, over the head of their queue, gets any: else those that
    happen to be due would overtake. `waiting` is how many triggers of this batch wait. The share of the backlogs is
    left in the bucket while there is a backlog. The caller holds the status rows.
    """
    wanted = sum(len(plan.starts) for _, plan in wants)
    if wanted == 0 or pace.execution_qps == 0:
        return [len(plan.starts) for _, plan in wants]
    if not in_turn and rates.more_waiting_than(connection, waiting):
        return [0] * len(wants)
    reserve = _backlogs_share(connection, pace, now) if backlog_store.any_open(connection) else 0
    tokens = _take(connection, STARTS, wanted, now, pace.execution_qps, pace.execution_burst, reserve)
    granted = admission.share_tokens([(project, plan.starts) for project, plan in wants], tokens)
    if in_turn or tokens < wanted:
        served = {project for (project, _), number in zip(wants, granted, strict=True) if number}
        rates.record_turns(connection, served, now)
    return granted


def take_for_backlogs(connection: Connection, pace: Pace, wants: Wants, now: datetime) -> list[int]:
    """Take tokens for the starts of a catch-up pass, and return the number for each plan.

    While live occurrences wait for a token, backlogs get no more than their share.
    """
    wanted = sum(len(plan.starts) for _, plan in wants)
    if wanted == 0 or pace.execution_qps == 0:
        return [len(plan.starts) for _, plan in wants]
    if rates.more_waiting_than(connection, 0):
        wanted = min(wanted, _backlogs_share(connection, pace, now))
    # Starts before backlogs: every replica locks the two buckets in this order.
    tokens = _take(connection, STARTS, wanted, now, pace.execution_qps, pace.execution_burst)
    _take(connection, CATCHUP, tokens, now, *_catchup_bucket(pace))
    return admission.share_tokens([(project, plan.starts) for project, plan in wants], tokens)


def available(connection: Connection, pace: Pace, now: datetime) -> int:
    """Return the tokens in the bucket of starts, read without a lock: others may take them first."""
    if pace.execution_qps == 0:
        return sys.maxsize
    empty_until = rates.empty_until(connection, STARTS)
    return admission.available(empty_until, now, per_second=pace.execution_qps, burst=pace.execution_burst)


def _catchup_bucket(pace: Pace) -> tuple[float, int]:
    """Return rate per second and burst of the bucket of backlogs."""
    return pace.execution_qps / CATCHUP_SHARE, max(1, pace.execution_burst // CATCHUP_SHARE)


def _backlogs_share(connection: Connection, pace: Pace, now: datetime) -> int:
    per_second, burst = _catchup_bucket(pace)
    return admission.available(rates.empty_until(connection, CATCHUP), now, per_second=per_second, burst=burst)


def _take(
    connection: Connection, name: str, wanted: int, now: datetime, per_second: float, burst: int, reserve: int = 0
) -> int:
    def decide(empty_until: datetime) -> tuple[int, datetime]:
        return admission.bucket(empty_until, now, wanted, per_second=per_second, burst=burst, reserve=reserve)

    return rates.take_tokens(connection, name, now, decide)

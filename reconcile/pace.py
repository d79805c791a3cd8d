"""How much may start: the settings, and the tokens that all replicas share (L-02, L-09, L-10)."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from reconcile.rules import admission
from reconcile.rules.admission import CATCHUP_SHARE
from reconcile.rules.catchup import Plan
from revisions.store import limits
from revisions.store import status as status_store
from revisions.store.database import Connection

STARTS, CATCHUP = "starts", "catchup"
"""The bucket of all scheduled and caught-up starts, and that of the share kept for catching up."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How much may start: L-02's settings. `execution_qps` 0 switches the rate limit off."""

    resync_interval: timedelta = timedelta(seconds=30)
    live_grace: timedelta = timedelta(seconds=60)
    max_catchup_runs_per_loop: int = 100
    execution_qps: float = 10.0
    execution_burst: int = 20

    @property
    def grace(self) -> timedelta:
        """Up to this age an occurrence is live: never less than two resync intervals (L-06)."""
        return max(self.live_grace, 2 * self.resync_interval)

    def for_live(
        self, connection: Connection, plans: Sequence[tuple[str, Plan]], now: datetime, *, in_turn: bool, waiting: int
    ) -> list[int]:
        """Tokens for each of these plans, (project, plan) each; the status rows are locked.

        While others wait for a token only those whose turn it is get one; `waiting` is how many of these wait. What is
        kept for catching up is left, as long as there is a backlog.
        """
        wanted = sum(len(plan.starts) for _, plan in plans)
        if wanted == 0 or self.execution_qps == 0:
            return [len(plan.starts) for _, plan in plans]
        if not in_turn and status_store.waits_more_than(connection, waiting):
            return [0] * len(plans)
        reserve = self._kept(connection, now) if status_store.has_backlog(connection) else 0
        tokens = self._take(connection, STARTS, wanted, now, self.execution_qps, self.execution_burst, reserve)
        return admission.share_tokens([(project, plan.starts) for project, plan in plans], tokens)

    def for_catchup(self, connection: Connection, plans: Sequence[tuple[str, Plan]], now: datetime) -> list[int]:
        """Tokens for these parts of backlogs: what is kept for them, and what live occurrences leave."""
        wanted = sum(len(plan.starts) for _, plan in plans)
        if wanted == 0 or self.execution_qps == 0:
            return [len(plan.starts) for _, plan in plans]
        if status_store.waits_more_than(connection, 0):
            wanted = min(wanted, self._kept(connection, now))
        tokens = self._take(connection, STARTS, wanted, now, self.execution_qps, self.execution_burst)
        self._take(connection, CATCHUP, tokens, now, *self._share)
        return admission.share_tokens([(project, plan.starts) for project, plan in plans], tokens)

    def available(self, connection: Connection, now: datetime) -> int:
        """Tokens there are just now for whatever waits; nobody is kept from taking them first."""
        if self.execution_qps == 0:
            return sys.maxsize
        empty_until = limits.empty_until(connection, STARTS)
        return admission.available(empty_until, now, per_second=self.execution_qps, burst=self.execution_burst)

    @property
    def _share(self) -> tuple[float, int]:
        return self.execution_qps / CATCHUP_SHARE, max(1, self.execution_burst // CATCHUP_SHARE)

    def _kept(self, connection: Connection, now: datetime) -> int:
        per_second, burst = self._share
        return admission.available(limits.empty_until(connection, CATCHUP), now, per_second=per_second, burst=burst)

    def _take(
        self, connection: Connection, name: str, wanted: int, now: datetime, qps: float, burst: int, reserve: int = 0
    ) -> int:
        return limits.take_tokens(
            connection,
            name,
            now,
            lambda empty_until: admission.bucket(
                empty_until, now, wanted, per_second=qps, burst=burst, reserve=reserve
            ),
        )

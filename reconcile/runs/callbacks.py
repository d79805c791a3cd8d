"""Callbacks: a service that accepted a run says that it works on it, and how that ended.

It knows its attempt by number, which stays when another worker takes the run over; of an attempt that is over nothing
is changed any more, and that is recorded (X-05).
"""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from reconcile.decide.secret_masks import Mask
from reconcile.observations.observation import Observations
from reconcile.observations.runs import ClaimLost, RunCompleted
from reconcile.protocols import LaunchError
from reconcile.runs import attempt_secrets, launch, workspace
from reconcile.runs.attempt import Ended
from reconcile.runs.attempt_secrets import Vault
from reconcile.runs.settle import settle, stop
from revisions.errors import Conflict, NotFound
from revisions.store import claims, runs
from revisions.store.claims import Claimed
from revisions.store.database import Connection, Database
from revisions.store.runs import Run


class Completing:
    """Takes callbacks; `lease` is how long a sign of life holds.

    What a callback says may hold secrets of the run: those that `vault` knows, and those that this machine's attempts,
    which live in `work_dir`, were handed.
    """

    def __init__(
        self,
        database: Database,
        observations: Observations,
        lease: timedelta,
        *,
        vault: Vault,
        work_dir: Path,
    ) -> None:
        self._database = database
        self._observations = observations
        self._lease = lease
        self._vault = vault
        self._work_dir = work_dir

    def complete(self, run_id: str, attempt: int, ended: Ended) -> Run:
        """Settles an attempt that goes on, and answers the run as it is then; its worker finds it settled (X-10).

        Raises NotFound, and Conflict when the attempt is over.
        """
        with self._database.read() as connection:
            one = _get(connection, run_id)
        ours = replace(one.run, attempt=attempt)
        ended = ended.masked(self._mask(one, attempt))
        settled = settle(
            self._database, self._observations, ours, ended, trigger=one.trigger, fence=claims.holds_attempt
        )
        if settled.stop:
            stop(self._database, self._observations, ours, settled.stop, one.trigger)
        with self._database.read() as connection:
            run = _get(connection, run_id).run
        if settled.decision is None:
            raise _over(run, attempt)
        self._observations.emit(RunCompleted(ours, one.trigger))
        return run

    def heartbeat(self, run_id: str, attempt: int) -> Run:
        """Prolongs the lease of an attempt that goes on, within its timeout, and answers the run (X-05).

        Raises NotFound, and Conflict when the attempt is over.
        """
        with self._database.write() as connection:
            runs.lock(connection, run_id)
            one = _get(connection, run_id)
            now = self._database.clock.now(connection)
            ours = replace(one.run, attempt=attempt)
            is_held = claims.holds_attempt(one.run, ours)
            if is_held and now - (one.run.started_at or now) < _timeout(one):
                claims.extend_lease(connection, one.run, now + self._lease)
        if not is_held:
            self._observations.emit(ClaimLost(ours, one.trigger, ours.claim))
            raise _over(one.run, attempt)
        return one.run

    def _mask(self, one: Claimed, attempt: int) -> Mask:
        return Mask(
            (*self._vault.known(one), *attempt_secrets.recall(workspace.folder(self._work_dir, one.run.id, attempt)))
        )


def _get(connection: Connection, run_id: str) -> Claimed:
    for one in claims.get(connection, [run_id]):
        return one
    raise NotFound.run(run_id)


def _timeout(one: Claimed) -> timedelta:
    """After it a sign of life prolongs nothing: a worker that is gone must not keep the run from being taken over."""
    try:
        return launch.timeout_of(one)
    except (LaunchError, ValueError):
        return timedelta(0)


def _over(run: Run, attempt: int) -> Conflict:
    holds = f"the run is {run.status} in attempt {run.attempt}"
    hint = "stop working on it: what this attempt says changes nothing any more"
    return Conflict.hinted("attempt", f"attempt {attempt} of run {run.id} does not go on: {holds}", hint)

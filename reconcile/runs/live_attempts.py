"""Attempts under way in this process: polled, kept alive in the database by their leases, settled when they end.

Crash windows: when the process is killed, the claims stay in the database with their leases, and the attempts' folders
stay in the workspace; the next worker adopts them (`adoption`). A worker that stalls for longer than its lease may find
its claim taken by another one. It notices at the next renewal or settlement, which name the claim's number, ends its
own work and changes nothing (X-05).
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta

from reconcile.decide.attempt_ends import AttemptOutcome
from reconcile.observations.observation import Observations
from reconcile.observations.runs import (
    AttemptLeftBehind,
    LeaseRenewed,
    LogUnbounded,
    RunLeft,
    SettleFailed,
    WorkUnreadable,
)
from reconcile.runs.attempt import Attempt, ClaimKey, Ended
from reconcile.runs.endings import EndedAttempt
from reconcile.runs.settle import UnconfirmedEnds, apply_stop, settle_all
from revisions.errors import Unavailable
from revisions.store import claims, logs
from revisions.store.claims import ClaimStates
from revisions.store.database import Database
from revisions.store.runs import Run

LOG_BYTES_PER_SYNC = 256 * 1024
LOG_BYTES_AT_END = logs.HEAD + logs.TAIL
SECONDS_TO_POSTPONE = 30.0
"""Time until an end that could not be stored is tried again."""
SETTLED_AT_ONCE = 20
"""Attempts settled in one transaction, each with up to a megabyte of log."""
_AT_ONCE = float("-inf")


class LiveAttempts:
    """All attempts of one worker; a claim holds for `lease` after each renewal.

    A launcher that raises for one attempt must not hold up the others: its exceptions are emitted as observations.
    """

    def __init__(self, database: Database, observations: Observations, lease: timedelta) -> None:
        self._database = database
        self._observations = observations
        self._lease = lease
        self._attempts: dict[ClaimKey, Attempt] = {}
        self._unconfirmed = UnconfirmedEnds()
        self._left_running = 0
        self._next_renewal = _AT_ONCE

    def __len__(self) -> int:
        return len(self._attempts)

    @property
    def keys(self) -> Collection[ClaimKey]:
        return self._attempts.keys()

    @property
    def is_empty(self) -> bool:
        """True when nothing runs here and nothing was left running elsewhere."""
        return not self._attempts and not self._left_running

    def add(self, attempt: Attempt) -> None:
        self._attempts[attempt.key] = attempt

    def renew_at_next_sync(self) -> None:
        """Renew the leases early, because it is unknown whether the last renewal was committed."""
        self._next_renewal = _AT_ONCE

    def remove_all(self) -> None:
        """End all work without settling it; the next worker finds the claims."""
        for attempt in self._attempts.values():
            self._remove(attempt)

    def settle_ended(self, drain_at: float) -> int:
        """Settle the attempts that ended, and return their number.

        From the monotonic time `drain_at` on, attempts are asked to end and are handed back to the queue. Work that
        goes on in another system without this process is left to the next worker, with its claim.
        """
        now = self._monotonic()
        ended_attempts: list[tuple[Attempt, Ended]] = []
        for attempt in list(self._attempts.values()):
            self._drop_log_middle(attempt)
            ended = None
            try:
                ended = attempt.poll(now)
            except Exception as error:  # noqa: BLE001 - a launcher that raises must not hold up other attempts
                self._emit_unreadable(attempt, error)
            if ended is None and now >= drain_at:
                self._hand_over(attempt)
            elif ended is not None and now >= attempt.postponed_until:
                ended_attempts.append((attempt, ended))
        settled = 0
        for first in range(0, len(ended_attempts), SETTLED_AT_ONCE):
            settled += self._settle_batch(ended_attempts[first : first + SETTLED_AT_ONCE])
        return settled

    def _hand_over(self, attempt: Attempt) -> None:
        if attempt.runs_elsewhere:
            del self._attempts[attempt.key]
            self._left_running += 1
            self._observations.emit(RunLeft(attempt.run, attempt.trigger))
        else:
            self._request_end(attempt, AttemptOutcome.HANDED_BACK)

    def _settle_batch(self, ended_attempts: Sequence[tuple[Attempt, Ended]]) -> int:
        batch = []
        for attempt, ended in ended_attempts:
            printed = self._unstored_log(attempt, LOG_BYTES_AT_END, is_complete=True)
            if ended.outcome is AttemptOutcome.HANDED_BACK:
                # Before the commit: from then on the same attempt may begin anew, in the same folder.
                self._remove(attempt)
            batch.append((attempt, EndedAttempt(attempt.run, ended, printed, attempt.trigger)))
        return self._write(batch)

    def _write(self, batch: Sequence[tuple[Attempt, EndedAttempt]]) -> int:
        """Settle a batch; when one end cannot be written, settle each alone and postpone the one that fails."""
        try:
            settled = self.settle(*(ended for _, ended in batch))
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001 - an end that cannot be written must not hold up other attempts
            if len(batch) > 1:
                return sum(self._write([single]) for single in batch)
            ((attempt, _),) = batch
            attempt.postponed_until = self._monotonic() + SECONDS_TO_POSTPONE
            self._observations.emit(SettleFailed(attempt.run, attempt.trigger, repr(error)))
            return 0
        for attempt, _ in batch:
            del self._attempts[attempt.key]
            self._remove(attempt)
        return settled

    def settle(self, *attempts: EndedAttempt) -> int:
        """Settle attempts, under way here or not, and return how many of their claims were still held."""
        results = settle_all(self._database, self._observations, attempts, self._unconfirmed)
        for attempt, settled in zip(attempts, results, strict=True):
            if settled.stop:
                apply_stop(self._database, self._observations, attempt.run, settled.stop, attempt.trigger)
        return sum(settled.decision is not None for settled in results)

    def settle_unconfirmed(self) -> int:
        """Settle again what was not confirmed, such as the end of a run that could not start: no attempt is polled."""
        return self.settle(*attempts) if (attempts := self._unconfirmed.attempts) else 0

    def sync(self) -> int:
        """Renew leases when it is time, store new log output, and end work that was cancelled or whose claim is lost.

        Returns how many attempts were settled. Raises Unavailable.
        """
        if not self._attempts:
            return 0
        attempts, settled = dict(self._attempts), 0
        printed = {
            key: pieces
            for key, attempt in attempts.items()
            if (pieces := self._unstored_log(attempt, LOG_BYTES_PER_SYNC))
        }
        held = [attempt.run for attempt in attempts.values()]
        if printed or self._monotonic() >= self._next_renewal:
            standings = self._renew(held, printed)
        else:
            with self._database.read() as connection:
                standings = claims.claim_states(connection, held)
        for key, standing in standings.items():
            attempt = attempts[key]
            if not standing.held:
                settled += self._drop(attempt)
            elif standing.cancel_requested:
                self._request_end(attempt, AttemptOutcome.CANCELLED, force=standing.cancel_forced)
        return settled

    def _request_end(self, attempt: Attempt, outcome: AttemptOutcome, *, force: bool = False) -> None:
        try:
            attempt.request_end(outcome, self._monotonic(), force=force)
        except Exception as error:  # noqa: BLE001 - as in `settle_ended`; the next polls force the end
            self._emit_unreadable(attempt, error)

    def _unstored_log(self, attempt: Attempt, limit: int, *, is_complete: bool = False) -> list[logs.LogPiece]:
        """Return new log output, nothing while it cannot be read."""
        try:
            return attempt.unstored_log(limit, is_complete=is_complete)
        except Exception as error:  # noqa: BLE001 - as in `settle_ended`
            self._emit_unreadable(attempt, error)
            return []

    def _drop_log_middle(self, attempt: Attempt) -> None:
        try:
            attempt.drop_log_middle()
        except Exception as error:  # noqa: BLE001 - as in `settle_ended`
            self._observations.emit(LogUnbounded(attempt.run, attempt.trigger, str(error) or repr(error)))

    def _emit_unreadable(self, attempt: Attempt, error: Exception) -> None:
        self._observations.emit(WorkUnreadable(attempt.run, attempt.trigger, str(error) or repr(error)))

    def _drop(self, attempt: Attempt) -> int:
        """End work whose claim is another worker's or was settled.

        Settling it changes nothing any more, but stores the rest of its log after a callback, and emits what happened.
        """
        printed = self._unstored_log(attempt, LOG_BYTES_AT_END, is_complete=True)
        del self._attempts[attempt.key]
        self._remove(attempt)
        return self.settle(EndedAttempt(attempt.run, Ended(AttemptOutcome.LOST), printed, attempt.trigger))

    def _renew(self, held: Sequence[Run], printed: Mapping[ClaimKey, list[logs.LogPiece]]) -> ClaimStates:
        begun = self._monotonic()
        with self._database.write() as connection:
            now = self._database.clock.now(connection)
            standings = claims.renew(connection, held, now, self._lease)
            still_held = {key: pieces for key, pieces in printed.items() if standings[key].held}
            attempts = self._attempts
            logs.append(connection, {(key[0], attempts[key].run.attempt): pieces for key, pieces in still_held.items()})
        for key, pieces in still_held.items():
            attempts[key].stored = pieces[-1].end
        self._next_renewal = begun + self._lease.total_seconds() / 3
        self._observations.emit(LeaseRenewed(sum(standing.held for standing in standings.values())))
        return standings

    def _remove(self, attempt: Attempt) -> None:
        """End the work if it still runs, and remove what is left of it."""
        try:
            attempt.remove()
        except Exception as error:  # noqa: BLE001 - as in `settle_ended`
            self._observations.emit(AttemptLeftBehind(attempt.run, attempt.trigger, str(error) or repr(error)))

    def _monotonic(self) -> float:
        return self._database.clock.monotonic()

"""The attempts that are under way here: looked at, kept alive in the database, settled when they are over."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta

from reconcile.decide.retry import AttemptOutcome
from reconcile.observations.observation import Observations
from reconcile.observations.runs import (
    AttemptLeftBehind,
    LeaseRenewed,
    LogUnbounded,
    RunLeft,
    SettleFailed,
    WorkUnreadable,
)
from reconcile.runs.attempt import Attempt, Ended, Key
from reconcile.runs.endings import Ending
from reconcile.runs.settle import settle_all, stop
from reconcile.runs.unconfirmed_ends import Unheard
from revisions.errors import Unavailable
from revisions.store import claims, logs
from revisions.store.claims import ClaimStates
from revisions.store.database import Database
from revisions.store.runs import Run

LOG_BYTES_PER_LOOK = 256 * 1024
LOG_BYTES_AT_END = logs.HEAD + logs.TAIL
SECONDS_TO_POSTPONE = 30.0
"""Until an end that could not be written is tried again."""
SETTLED_AT_ONCE = 20
"""Ends written in one transaction, each with a log's rest of up to a megabyte."""
_AT_ONCE = float("-inf")


class Live:
    """All attempts of one worker; `lease` is how long a claim holds without a sign of life."""

    def __init__(self, database: Database, observations: Observations, lease: timedelta) -> None:
        self._database = database
        self._observations = observations
        self._lease = lease
        self._attempts: dict[Key, Attempt] = {}
        self._unheard = Unheard()
        self._left = 0
        self._next_renewal = _AT_ONCE

    def __len__(self) -> int:
        return len(self._attempts)

    @property
    def keys(self) -> Collection[Key]:
        return self._attempts.keys()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is under way here, or was left to go on."""
        return not self._attempts and not self._left

    def add(self, attempt: Attempt) -> None:
        self._attempts[attempt.key] = attempt

    def renew_at_once(self) -> None:
        """Nobody knows whether the last renewal was heard."""
        self._next_renewal = _AT_ONCE

    def remove_all(self) -> None:
        """Ends what is left, without settling it: whoever comes next finds the claims."""
        for attempt in self._attempts.values():
            self._remove(attempt)

    def watch(self, drain_at: float) -> int:
        """Settles what is over, and answers how many that were; from `drain_at` on hands back what can be handed back.

        What goes on without a controller is left to the next one, with its claim.
        """
        now = self._monotonic()
        over: list[tuple[Attempt, Ended]] = []
        for attempt in list(self._attempts.values()):
            self._thin(attempt)
            ended = None
            try:
                ended = attempt.watch(now)
            except Exception as error:  # noqa: BLE001 - what one launcher does wrong must not keep the others
                self._tell_unreadable(attempt, error)
            if ended is None and now >= drain_at:
                self._hand_over(attempt)
            elif ended is not None and now >= attempt.postponed_until:
                over.append((attempt, ended))
        settled = 0
        for first in range(0, len(over), SETTLED_AT_ONCE):
            settled += self._end(over[first : first + SETTLED_AT_ONCE])
        return settled

    def _hand_over(self, attempt: Attempt) -> None:
        if attempt.elsewhere:
            del self._attempts[attempt.key]
            self._left += 1
            self._observations.emit(RunLeft(attempt.run, attempt.trigger))
        else:
            self._ask_to_end(attempt, AttemptOutcome.HANDED_BACK)

    def _end(self, over: Sequence[tuple[Attempt, Ended]]) -> int:
        endings = []
        for attempt, ended in over:
            printed = self._printed(attempt, LOG_BYTES_AT_END, whole=True)
            if ended.outcome is AttemptOutcome.HANDED_BACK:
                self._remove(attempt)  # first, for the same attempt may begin anew in the same folder
            endings.append((attempt, Ending(attempt.run, ended, printed, attempt.trigger)))
        return self._write(endings)

    def _write(self, endings: Sequence[tuple[Attempt, Ending]]) -> int:
        """Settles them together; one end that cannot be written must not keep the others."""
        try:
            settled = self.settle(*(ending for _, ending in endings))
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it
            if len(endings) > 1:
                return sum(self._write([one]) for one in endings)
            ((attempt, _),) = endings
            attempt.postponed_until = self._monotonic() + SECONDS_TO_POSTPONE
            self._observations.emit(SettleFailed(attempt.run, attempt.trigger, repr(error)))
            return 0
        for attempt, _ in endings:
            del self._attempts[attempt.key]
            self._remove(attempt)
        return settled

    def settle(self, *endings: Ending) -> int:
        """Settles attempts, under way here or not, and answers how many of their claims were still held."""
        settled = settle_all(self._database, self._observations, endings, unheard=self._unheard)
        for ending, one in zip(endings, settled, strict=True):
            if one.stop:
                stop(self._database, self._observations, ending.run, one.stop, ending.trigger)
        return sum(one.decision is not None for one in settled)

    def settle_unheard(self) -> int:
        """Settles again what nobody watches any more and what was not heard of, as of a run that could not start."""
        return self.settle(*endings) if (endings := self._unheard.endings) else 0

    def tend(self) -> int:
        """Renews leases when it is time, stores what was printed, ends what was cancelled, drops what is not ours.

        Answers how many were settled. Raises Unavailable.
        """
        if not self._attempts:
            return 0
        attempts, settled = dict(self._attempts), 0
        printed = {key: pieces for key, one in attempts.items() if (pieces := self._printed(one, LOG_BYTES_PER_LOOK))}
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
                self._ask_to_end(attempt, AttemptOutcome.CANCELLED, force=standing.cancel_forced)
        return settled

    def _ask_to_end(self, attempt: Attempt, why: AttemptOutcome, *, force: bool = False) -> None:
        try:
            attempt.end(why, self._monotonic(), force=force)
        except Exception as error:  # noqa: BLE001 - as in `watch`, which will force it
            self._tell_unreadable(attempt, error)

    def _printed(self, attempt: Attempt, limit: int, *, whole: bool = False) -> list[logs.LogPiece]:
        """What an attempt printed since, nothing while that cannot be read."""
        try:
            return attempt.printed(limit, whole=whole)
        except Exception as error:  # noqa: BLE001 - as in `watch`
            self._tell_unreadable(attempt, error)
            return []

    def _thin(self, attempt: Attempt) -> None:
        try:
            attempt.thin()
        except Exception as error:  # noqa: BLE001 - as in `watch`
            self._observations.emit(LogUnbounded(attempt.run, attempt.trigger, str(error) or repr(error)))

    def _tell_unreadable(self, attempt: Attempt, error: Exception) -> None:
        self._observations.emit(WorkUnreadable(attempt.run, attempt.trigger, str(error) or repr(error)))

    def _drop(self, attempt: Attempt) -> int:
        """Ends work whose claim is another's or was settled; settling it changes nothing any more, and records that."""
        printed = self._printed(attempt, LOG_BYTES_AT_END, whole=True)
        del self._attempts[attempt.key]
        self._remove(attempt)
        return self.settle(Ending(attempt.run, Ended(AttemptOutcome.LOST), printed, attempt.trigger))

    def _renew(self, held: Sequence[Run], printed: Mapping[tuple[str, int], list[logs.LogPiece]]) -> ClaimStates:
        begun = self._monotonic()
        with self._database.write() as connection:
            now = self._database.clock.now(connection)
            standings = claims.renew(connection, held, now, self._lease)
            ours = {key: pieces for key, pieces in printed.items() if standings[key].held}
            attempts = self._attempts
            logs.append(connection, {(key[0], attempts[key].run.attempt): pieces for key, pieces in ours.items()})
        for key, pieces in ours.items():
            attempts[key].stored = pieces[-1].end
        self._next_renewal = begun + self._lease.total_seconds() / 3
        self._observations.emit(LeaseRenewed(sum(standing.held for standing in standings.values())))
        return standings

    def _remove(self, attempt: Attempt) -> None:
        """Ends the work if it is not over, and removes what is left of it."""
        try:
            attempt.remove()
        except Exception as error:  # noqa: BLE001 - as in `watch`
            self._observations.emit(AttemptLeftBehind(attempt.run, attempt.trigger, str(error) or repr(error)))

    def _monotonic(self) -> float:
        return self._database.clock.monotonic()

"""One attempt under way: how it stands, when it must end, what it printed since."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reconcile.decide.retry import AttemptOutcome
from reconcile.decide.secret_masks import Mask
from reconcile.protocols import Failed, Lost, Running, Succeeded, Work, WorkProgress
from reconcile.runs import attempt_secrets
from revisions.ids import TriggerKey
from revisions.store import logs
from revisions.store.runs import Run

SECONDS_TO_END = 10.0
"""From the request to end until force."""
BYTES_TO_DROP = 1024 * 1024
"""How much a log grows before room is given back again."""

Key = tuple[str, int]
"""Run and claim number: what a worker holds."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt ended, with what it answered; `output` may be there after a failure too.

    `is_final`: another attempt would end the same. `is_counted`: as a failure it is one towards the number that stops
    the trigger.
    """

    outcome: AttemptOutcome
    error: str | None = None
    output: Mapping[str, Any] | None = None
    is_final: bool = False
    is_counted: bool = True

    def masked(self, mask: Mask) -> "Ended":
        """The same, with values hidden in what the task said."""
        if not mask:
            return self
        error = mask.text(self.error, cut=True) if self.error else self.error
        return replace(self, error=error, output=mask.value(self.output))


class Attempt:
    """Work that was started or adopted for a claimed run; all times are monotonic seconds.

    What it says goes through `mask`, so that no value it was handed is stored or told (X-12).
    """

    def __init__(
        self,
        run: Run,
        trigger: TriggerKey | None,
        work: Work,
        deadline: float,
        *,
        folder: Path,
        mask: Mask,
        stored: int = 0,
    ) -> None:
        self.run = run
        self.trigger = trigger
        self.work = work
        self._folder = folder
        self._mask = mask
        self.stored = stored
        self.postponed_until = float("-inf")
        self.elsewhere = False
        self._deadline = deadline
        self._ending: AttemptOutcome | None = None
        self._dropped: int | None = 0
        self._force_at = float("inf")

    @property
    def key(self) -> Key:
        return self.run.id, self.run.claim

    def watch(self, now: float) -> Ended | None:
        """How it ended, None while it runs; enforces the timeout and, later, an end that was asked for in vain.

        Raises what keeps the work from being looked at; where its end was forced long ago, that is how it ended.
        """
        try:
            progress = self.work.poll()
        except Exception as error:
            if now >= self._force_at + SECONDS_TO_END:
                return self._ended(Lost(f"cannot be looked at: {error!r}")).masked(self._mask)
            self._enforce(now)
            raise
        if not isinstance(progress, Running):
            return self._ended(progress).masked(self._mask)
        self.elsewhere = progress.elsewhere
        self._enforce(now)
        return None

    def _enforce(self, now: float) -> None:
        if now >= self._deadline:
            self.end(AttemptOutcome.TIMED_OUT, now)
        if now >= self._force_at:
            self.work.cancel(force=True)

    def end(self, why: AttemptOutcome, now: float, *, force: bool = False) -> None:
        """Asks the work to end, for the first reason that is given; with `force` it is not asked."""
        if self._ending is None:
            self._ending = why
            self._force_at = now if force else now + SECONDS_TO_END
            self.work.cancel(force=force)

    def remove(self) -> None:
        """Ends the work if it is not over, and removes what is left of it."""
        self.work.cancel(force=True)
        self.work.forget()
        attempt_secrets.forget(self._folder)

    def printed(self, limit: int, *, whole: bool = False) -> list[logs.LogPiece]:
        """What is in the log and not stored, about `limit` bytes at most; `stored` moves when it is.

        `whole` says that nothing follows, so that nothing has to be left for later.
        """
        ranges = logs.wanted(self.stored, self.work.log.size(), limit)
        read = self.work.log.read
        pieces = [logs.LogPiece(start, self._mask.log(read, start, end, whole=whole)) for start, end in ranges]
        return [piece for piece in pieces if piece.data]

    def thin(self) -> None:
        """Gives back the room of what is neither head nor tail of the log, whenever that has become much (X-17).

        It hangs on no database, so that what prints without end fills no disk while that is away. Raises, once, what
        keeps it from that.
        """
        if self._dropped is None:
            return
        try:
            start, end = logs.unwanted(self.work.log.size(), self._mask.reach)
            if end - max(start, self._dropped) >= BYTES_TO_DROP:
                self.work.log.drop(start, end)
                self._dropped = end
        except Exception:
            self._dropped = None
            raise

    def _ended(self, progress: WorkProgress) -> Ended:
        """Exit 0 is success by contract, also for a worker that goes; not for who was to be stopped."""
        match self._ending, progress:
            case AttemptOutcome.TIMED_OUT, _:
                return Ended(AttemptOutcome.TIMED_OUT, _error(progress, "timed out"), _output(progress))
            case AttemptOutcome.CANCELLED, _:
                return Ended(AttemptOutcome.CANCELLED, _error(progress, "cancelled"), _output(progress))
            case _, Succeeded():
                return Ended(AttemptOutcome.SUCCEEDED, output=progress.output)
            case AttemptOutcome.HANDED_BACK, _:
                return Ended(AttemptOutcome.HANDED_BACK)
            case _, Lost():
                return Ended(AttemptOutcome.LOST, progress.error)
            case _:
                return Ended(AttemptOutcome.FAILED, _error(progress, ""), _output(progress))


def _error(progress: WorkProgress, why: str) -> str:
    said = progress.error if isinstance(progress, Failed | Lost) else ""
    return ": ".join(filter(None, (why, said)))


def _output(progress: WorkProgress) -> Mapping[str, Any] | None:
    return progress.output if isinstance(progress, Succeeded | Failed) else None

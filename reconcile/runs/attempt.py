"""One attempt under way: its progress, its timeout, and the part of its log that is not stored yet."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reconcile.decide.attempt_ends import AttemptOutcome
from reconcile.decide.secret_masks import Mask
from reconcile.plugins import Failed, Lost, Running, Succeeded, Work, WorkProgress
from reconcile.runs import attempt_secrets
from revisions.ids import TriggerKey
from revisions.store import logs
from revisions.store.runs import Run

SECONDS_TO_END = 10.0
"""Time between the request to end and the forced end."""
BYTES_TO_DROP = 1024 * 1024
"""Growth of a log after which its middle is given back to the file system again."""

ClaimKey = tuple[str, int]
"""Run id and claim number: identifies a claim that a worker holds or held."""


@dataclass(frozen=True, slots=True)
class Ended:
    """Result of an attempt; a failed attempt may have an `output` too.

    With `is_final` no further attempt follows, because it would end the same way. Without `is_counted` a failure does
    not count towards the number of failed runs after which the trigger is deactivated.
    """

    outcome: AttemptOutcome
    error: str | None = None
    output: Mapping[str, Any] | None = None
    is_final: bool = False
    is_counted: bool = True

    def masked(self, mask: Mask) -> "Ended":
        """Return the same result with secret values replaced in error and output."""
        if not mask:
            return self
        error = mask.text(self.error, cut=True) if self.error else self.error
        return replace(self, error=error, output=mask.value(self.output))


class Attempt:
    """Work that was started or adopted for a claimed run.

    All times are seconds of the monotonic clock. `mask` hides the attempt's secrets in everything that it prints or
    answers, before that is stored or observed (X-12). `stored` is the number of log bytes that are stored already.
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
        self.runs_elsewhere = False
        self._deadline = deadline
        self._requested_end: AttemptOutcome | None = None
        self._dropped: int | None = 0
        self._force_at = float("inf")

    @property
    def key(self) -> ClaimKey:
        return self.run.id, self.run.claim

    def poll(self, now: float) -> Ended | None:
        """Return how the work ended, None while it runs; enforce the timeout and an end that was requested before.

        Raises any exception of the launcher that could not read the work's progress. Once the end was forced and that
        did not help within `SECONDS_TO_END`, the attempt counts as lost instead.
        """
        try:
            progress = self.work.poll()
        except Exception as error:
            if now >= self._force_at + SECONDS_TO_END:
                return self._result(Lost(f"its progress cannot be read: {error!r}")).masked(self._mask)
            self._enforce(now)
            raise
        if not isinstance(progress, Running):
            return self._result(progress).masked(self._mask)
        self.runs_elsewhere = progress.elsewhere
        self._enforce(now)
        return None

    def _enforce(self, now: float) -> None:
        if now >= self._deadline:
            self.request_end(AttemptOutcome.TIMED_OUT, now)
        if now >= self._force_at:
            self.work.cancel(force=True)

    def request_end(self, outcome: AttemptOutcome, now: float, *, force: bool = False) -> None:
        """Ask the work to end, and force it later; with `force` at once. The outcome of the first request counts."""
        if self._requested_end is None:
            self._requested_end = outcome
            self._force_at = now if force else now + SECONDS_TO_END
            self.work.cancel(force=force)

    def remove(self) -> None:
        """End the work if it still runs, and remove its files and its secrets."""
        self.work.cancel(force=True)
        self.work.forget()
        attempt_secrets.remove(self._folder)

    def unstored_log(self, limit: int, *, is_complete: bool = False) -> list[logs.LogPiece]:
        """Return log pieces that are not stored, about `limit` bytes; the caller sets `stored` once they are.

        Unless the log `is_complete`, bytes at its end that may be the beginning of a secret are left for the next call.
        """
        ranges = logs.wanted(self.stored, self.work.log.size(), limit)
        read = self.work.log.read
        pieces = [logs.LogPiece(start, self._mask.log(read, start, end, whole=is_complete)) for start, end in ranges]
        return [piece for piece in pieces if piece.data]

    def drop_log_middle(self) -> None:
        """Give the middle of a long log back to the file system; head and tail are kept (X-17).

        Needs no database, so that work that prints without end fills no disk while the database is away. Raises the
        launcher's exception once; from then on the log is left to grow.
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

    def _result(self, progress: WorkProgress) -> Ended:
        """Combine how the work ended with the end that was requested.

        Exit code 0 means success also for work that a stopping worker asked to end, but not after a timeout or a
        cancellation.
        """
        match self._requested_end, progress:
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


def _error(progress: WorkProgress, prefix: str) -> str:
    error = progress.error if isinstance(progress, Failed | Lost) else ""
    return ": ".join(filter(None, (prefix, error)))


def _output(progress: WorkProgress) -> Mapping[str, Any] | None:
    return progress.output if isinstance(progress, Succeeded | Failed) else None

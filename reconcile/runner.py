"""The worker: claims runs, launches them, keeps their leases while they live, and settles how they end.

A pass is: what ended, what is to end, what must be renewed, who lost his worker, what can be claimed. All that a worker
knows beside the database is which attempts it watches; the folders of its workplace let the next one find them again.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from reconcile import launching
from reconcile.attempts import Attempt, Ended
from reconcile.observe import Observations
from reconcile.ports import Launcher, LaunchError, Work
from reconcile.rules.retry import Final, HandBack, Outcome, Retry
from reconcile.settle import settle
from reconcile.workplace import WorkPlace
from revisions.errors import TriggerctlError, Unavailable
from revisions.ids import fresh
from revisions.store import claims, logs, runs
from revisions.store.claims import Claimed
from revisions.store.database import Database
from revisions.store.runs import Run

LOOK_SECONDS = 1.0
"""Between two looks at what the database wants of what runs here."""
LOG_BYTES_PER_LOOK = 256 * 1024
LOG_BYTES_AT_END = logs.HEAD + logs.TAIL
FAILURES = "failures"
"""Why a trigger is deactivated that failed too often."""

Deactivate = Callable[[str, str], None]
"""Deactivates a trigger (its id, the reason) as the system."""


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    """`max_running` holds for all workers together, `capacity` for this one (by default the same).

    `work_dir` is where attempts live, `task_root` what tasks' folders are relative to, `url` where tasks reach the API.
    """

    work_dir: Path
    task_root: Path = field(default_factory=Path.cwd)
    url: str = ""
    max_running: int = 20
    capacity: int | None = None
    lease: timedelta = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class PassReport:
    """How many runs a pass did what with; `live` are under way here after it."""

    claimed: int
    adopted: int
    succeeded: int
    failed: int
    retried: int
    handed_back: int
    lost: int
    live: int

    @property
    def ended(self) -> int:
        return self.succeeded + self.failed + self.retried + self.handed_back + self.lost


class Worker:
    """Passes, driven from outside by one thread at a time."""

    def __init__(
        self,
        database: Database,
        observations: Observations,
        launchers: Mapping[str, Launcher],
        *,
        settings: RunnerSettings,
        deactivate: Deactivate,
    ) -> None:
        self._database = database
        self._observations = observations
        self._launchers = launchers
        self._settings = settings
        self._deactivate = deactivate
        self._live: dict[tuple[str, int], Attempt] = {}
        self._place: WorkPlace | None = None
        self._in_doubt = False
        self._next_look = self._next_renewal = self._reap_from = float("-inf")
        self._drain_at = float("inf")
        self._counted: Counter[str] = Counter()

    @property
    def live(self) -> int:
        """How many attempts are under way here."""
        return len(self._live)

    def run_pass(self, *, look: bool = True) -> PassReport:
        """Everything that is due now; without `look` only what can be seen without asking the database.

        Raises Unavailable when the database cannot be reached; the work goes on, and the next pass finds it again.
        """
        self._counted.clear()
        try:
            self._settle_ended()
            if look or self._counted:
                self._ask()
        except Unavailable:
            self._in_doubt = True
            # Everybody's leases lapsed meanwhile: those who come back must have the time to renew them.
            self._reap_from = self._monotonic() + self._settings.lease.total_seconds()
            raise
        return PassReport(live=self.live, **{name: self._counted[name] for name in _COUNTED})

    def drain(self, grace_seconds: float) -> None:
        """Claims nothing more; what still runs after the grace is ended and handed back by the following passes."""
        self._drain_at = self._monotonic() + grace_seconds

    def leave(self) -> None:
        """Ends whatever is left and gives up the workplace; what could not be handed back is found by whoever comes."""
        for attempt in self._live.values():
            self._drop(attempt)
        self._live.clear()
        if self._place is not None:
            self._place.leave()
            self._place = None

    def _ask(self) -> None:
        place = self._place or self._move_in()
        if self._in_doubt and self._place is not None:
            self._recover([place.instance])  # a commit whose answer was lost may have left us claims we do not know
        self._in_doubt = False
        if self._monotonic() >= self._next_look:
            self._tend()
            if self._monotonic() >= self._reap_from:
                self._reap(place)
            self._next_look = self._monotonic() + LOOK_SECONDS
        if self._drain_at == float("inf"):
            self._claim(place)

    def _move_in(self) -> WorkPlace:
        """Occupies the workplace, and takes up what workers left there that are no more."""
        with self._database.read() as connection:
            place = WorkPlace(self._settings.work_dir, fresh(self._database.clock.now(connection)))
        place.occupy()
        self._place = place
        ...
        return place

    def _monotonic(self) -> float:
        return self._database.clock.monotonic()


_COUNTED = ("claimed", "adopted", "succeeded", "failed", "retried", "handed_back", "lost")

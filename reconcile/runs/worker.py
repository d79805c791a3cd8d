"""The worker: claims runs, launches them, and takes up what others left; `live` holds what is under way here.

A pass is: what ended, what is to end, what must be renewed, who lost their worker, what can be claimed. All that a
worker knows beside the database is which attempts it watches; the folders of its workplace let the next one find them.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from reconcile.decide.retry import AttemptOutcome
from reconcile.observations.observation import Observations
from reconcile.observations.runs import LaunchTried, RunAdopted, RunLost, RunStarted
from reconcile.protocols import Launcher
from reconcile.runs import claiming
from reconcile.runs.adoption import AdoptedClaim, Adoption, UnseenAttempt
from reconcile.runs.attempt import Attempt, Ended
from reconcile.runs.attempt_secrets import Vault
from reconcile.runs.endings import Ending
from reconcile.runs.live_attempts import Live
from reconcile.runs.start import Starting
from reconcile.runs.workspace import WorkPlace
from revisions.errors import Unavailable
from revisions.ids import fresh
from revisions.store import installations
from revisions.store.claims import Claimed
from revisions.store.database import Database
from revisions.store.runs import Run

LOOK_SECONDS = 1.0
"""Between two looks at what the database wants of what runs here."""
_NEVER, _AT_ONCE = float("inf"), float("-inf")


def passed_on(run: Run) -> str | None:
    """What the request was part of: who keeps no traces hands it on as it is."""
    return run.traceparent


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    """`max_running` holds for all workers together, `capacity` for this one (None: the same).

    `work_dir` is where attempts live, of one database's runs only; `task_root` is what tasks' folders are relative to;
    `url` is where tasks reach the API, "" for nowhere; `vault` where their secrets are; `traceparent` what an
    attempt is told that it is part of. `guarded`: the API wants a token whatever the database says.
    """

    work_dir: Path
    task_root: Path = field(default_factory=Path.cwd)
    url: str = ""
    vault: Vault = field(default_factory=Vault)
    traceparent: Callable[[Run], str | None] = passed_on
    max_running: int = 20
    capacity: int | None = None
    lease: timedelta = timedelta(seconds=60)
    guarded: bool = False


@dataclass(frozen=True, slots=True)
class PassReport:
    """How many runs a pass did what with; `live` are under way here after it."""

    claimed: int
    adopted: int
    lost: int
    settled: int
    live: int


class Worker:
    """Passes, driven by one thread at a time."""

    def __init__(
        self,
        database: Database,
        observations: Observations,
        launchers: Mapping[str, Launcher],
        *,
        settings: RunnerSettings,
    ) -> None:
        self._database = database
        self._observations = observations
        self._launchers = launchers
        self._settings = settings
        told = settings.traceparent
        self._starting = Starting(launchers, settings.vault, settings.task_root, settings.url, told)
        self._live = Live(database, observations, settings.lease)
        self._adoption: Adoption | None = None
        self._in_doubt = True
        self._next_look = _AT_ONCE
        self._drain_at = _NEVER
        self._counted: Counter[str] = Counter()

    @property
    def live(self) -> int:
        """How many attempts are under way here."""
        return len(self._live)

    def run_pass(self, *, look: bool = True) -> PassReport:
        """Everything that is due now; without `look` only what shows without asking the database.

        Raises Unavailable when the database cannot be reached; the work goes on, and the next pass finds it again.
        """
        self._counted.clear()
        try:
            self._counted["settled"] = self._live.watch(self._drain_at)
            if look or self._counted["settled"]:
                self._ask()
        except Exception as error:
            self._in_doubt = True
            self._next_look = _AT_ONCE
            self._live.renew_at_once()
            if isinstance(error, Unavailable) and self._adoption:
                self._adoption.spare()
            raise
        counted = {name: self._counted[name] for name in ("claimed", "adopted", "lost", "settled")}
        return PassReport(live=self.live, **counted)

    def drain(self, grace_seconds: float) -> None:
        """Claims nothing more; what still runs after the grace is ended and handed back by the passes that follow.

        What goes on without a controller is left to the next one, with its claim.
        """
        self._drain_at = self._monotonic() + grace_seconds

    def leave(self) -> None:
        """Ends what is left and gives the workplace up; claims that are left are found by whoever comes next."""
        self._live.remove_all()
        if self._adoption is not None:
            self._adoption.place.leave(forgotten=self._live.is_empty)

    def _ask(self) -> None:
        adoption = self._adoption or self._move_in()
        if self._in_doubt:
            self._take_stock(adoption)
        if self._monotonic() >= self._next_look:
            self._counted["settled"] += self._live.tend()
            self._take_up(adoption.of_the_lapsed(self._live.keys))
            self._next_look = self._monotonic() + LOOK_SECONDS
        if self._drain_at == _NEVER:
            self._claim(adoption.place)

    def _move_in(self) -> Adoption:
        with self._database.read() as connection:
            instance = fresh(self._database.clock.now(connection))
            place = WorkPlace(self._settings.work_dir, instance, installations.current(connection))
        place.occupy()
        self._adoption = Adoption(self._database, self._launchers, place, self._settings.lease)
        return self._adoption

    def _take_stock(self, adoption: Adoption) -> None:
        """At the beginning, and after a failure: commits whose answers were lost leave claims and ends unknown."""
        self._counted["settled"] += self._live.settle_unheard()
        self._take_up(adoption.of_mine(self._live.keys))
        self._take_up(adoption.of_the_dead())
        if not adoption.place.is_shared():
            adoption.clear()
        self._in_doubt = False

    def _take_up(self, taken: Sequence[AdoptedClaim]) -> None:
        for one in taken:
            run = one.run
            match one.found:
                case Attempt() as attempt:
                    self._live.add(attempt)
                    self._counted["adopted"] += 1
                    self._observations.emit(RunAdopted(attempt.run, attempt.trigger))
                case UnseenAttempt() as unseen:
                    assert self._adoption is not None
                    self._counted["adopted"] += 1
                    self._launch(self._adoption.place, unseen.claimed, unseen.now, stored=unseen.stored)
                case Ended(AttemptOutcome.LOST) as ended:
                    self._counted["lost"] += 1
                    self._observations.emit(RunLost(run, one.trigger))
                    self._settle(Ending(run, ended, trigger=one.trigger))
                case ended:
                    self._settle(Ending(run, ended, trigger=one.trigger))

    def _claim(self, place: WorkPlace) -> None:
        settings = self._settings
        capacity = settings.max_running if settings.capacity is None else settings.capacity
        begun = self._monotonic()
        taken = claiming.take(
            self._database,
            self._observations,
            claimed_by=place.instance,
            lease=settings.lease,
            limit=capacity - self.live,
            max_running=settings.max_running,
            guarded=settings.guarded,
        )
        self._counted["claimed"] += len(taken.claimed)
        taken_at = self._monotonic()
        for one in taken.claimed:
            if self._monotonic() - begun > settings.lease.total_seconds() / 2:
                # Stalled: it may be somebody else's any moment.
                self._settle(Ending(one.run, Ended(AttemptOutcome.HANDED_BACK), trigger=one.trigger))
            else:
                waited = self._monotonic() - taken_at
                self._launch(place, one, taken.now, taken.tokens.get(one.run.id), waited=waited)

    def _launch(
        self,
        place: WorkPlace,
        one: Claimed,
        now: datetime,
        token: str | None = None,
        stored: int | None = None,
        *,
        waited: float = 0.0,
    ) -> None:
        """`stored`: of work that another worker began, which has its token, how much of its log is known.

        `waited`: seconds since `now`, for those that were claimed together are launched one after the other.
        """
        begun = self._monotonic()
        found = self._starting.start(place, one, now, begun, token, stored)
        at, error = now + timedelta(seconds=waited), found.error if isinstance(found, Ended) else None
        self._observations.emit(LaunchTried(one.run, one.trigger, at, self._monotonic() - begun, error))
        match found:
            case Attempt() as attempt:
                self._live.add(attempt)
                if stored is None:
                    self._observations.emit(RunStarted(attempt.run, attempt.trigger))
                else:
                    self._observations.emit(RunAdopted(attempt.run, attempt.trigger))
            case ended:
                self._settle(Ending(one.run, ended, trigger=one.trigger))

    def _settle(self, ending: Ending) -> None:
        self._counted["settled"] += self._live.settle(ending)

    def _monotonic(self) -> float:
        return self._database.clock.monotonic()

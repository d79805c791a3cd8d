"""The worker: claims runs, launches them, keeps their leases while they live, and settles how they end.

A pass is: what ended, what is to end, what must be renewed, who lost their worker, what can be claimed. All that a
worker knows beside the database is which attempts it watches; the folders of its workplace let the next one find them.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from reconcile.attempts import claiming, handed
from reconcile.attempts.adoption import Adoption, Taken, Unseen
from reconcile.attempts.attempt import Attempt, Ended, facts_of
from reconcile.attempts.starting import Starting
from reconcile.attempts.vault import Vault
from reconcile.attempts.workplace import WorkPlace
from reconcile.observe import Observations
from reconcile.ports import Launcher
from reconcile.rules.retry import Outcome
from reconcile.settle import Deactivate, Ending, settle_all, stop
from revisions.errors import Unavailable
from revisions.ids import fresh
from revisions.store import claims, logs
from revisions.store.claims import Claimed, Standings
from revisions.store.database import Database
from revisions.store.runs import Run

LOOK_SECONDS = 1.0
"""Between two looks at what the database wants of what runs here."""
LOG_BYTES_PER_LOOK = 256 * 1024
LOG_BYTES_AT_END = logs.HEAD + logs.TAIL
SECONDS_TO_POSTPONE = 30.0
"""Until an end that could not be written is tried again."""
SETTLED_AT_ONCE = 20
"""Ends written in one transaction, each with a log's rest of up to a megabyte."""
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
        deactivate: Deactivate,
    ) -> None:
        self._database = database
        self._emit = observations.emit
        self._observations = observations
        self._launchers = launchers
        self._settings = settings
        self._deactivate = deactivate
        told = settings.traceparent
        self._starting = Starting(launchers, settings.vault, settings.task_root, settings.url, told)
        self._live: dict[tuple[str, int], Attempt] = {}
        self._adoption: Adoption | None = None
        self._in_doubt = True
        self._next_look = self._next_renewal = _AT_ONCE
        self._drain_at = _NEVER
        self._left = 0
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
            self._watch()
            if look or self._counted["settled"]:
                self._ask()
        except Exception as error:
            self._in_doubt = True
            self._next_look = self._next_renewal = _AT_ONCE
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
        for attempt in self._live.values():
            self._remove(attempt)
        if self._adoption is not None:
            self._adoption.place.leave(forgotten=not self._live and not self._left)

    def _watch(self) -> None:
        now = self._monotonic()
        over: list[tuple[Attempt, Ended]] = []
        for attempt in list(self._live.values()):
            ended = None
            try:
                ended = attempt.watch(now)
            except Exception as error:  # noqa: BLE001 - what one launcher does wrong must not keep the others
                self._tell_unreadable(attempt, error)
            if ended is None and now >= self._drain_at:
                self._hand_over(attempt)
            elif ended is not None and now >= attempt.postponed_until:
                over.append((attempt, ended))
        for first in range(0, len(over), SETTLED_AT_ONCE):
            self._end(over[first : first + SETTLED_AT_ONCE])

    def _hand_over(self, attempt: Attempt) -> None:
        if attempt.elsewhere:
            del self._live[attempt.key]
            self._left += 1
            self._emit("run.left", **attempt.facts)
        else:
            self._ask_to_end(attempt, Outcome.HANDED_BACK)

    def _end(self, over: Sequence[tuple[Attempt, Ended]]) -> None:
        endings = []
        for attempt, ended in over:
            printed = self._printed(attempt, LOG_BYTES_AT_END, whole=True)
            if ended.outcome is Outcome.HANDED_BACK:
                self._remove(attempt)  # first, for the same attempt may begin anew in the same folder
            endings.append((attempt, Ending(attempt.run, ended, printed, attempt.trigger)))
        self._write(endings)

    def _write(self, endings: Sequence[tuple[Attempt, Ending]]) -> None:
        """Settles them together; one end that cannot be written must not keep the others."""
        try:
            self._settle(*(ending for _, ending in endings))
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it
            if len(endings) > 1:
                for one in endings:
                    self._write([one])
                return
            ((attempt, _),) = endings
            attempt.postponed_until = self._monotonic() + SECONDS_TO_POSTPONE
            self._emit("settle.failed", **attempt.facts, error=repr(error))
            return
        for attempt, _ in endings:
            del self._live[attempt.key]
            self._remove(attempt)

    def _settle(self, *endings: Ending) -> None:
        settled = settle_all(self._database, self._observations, endings)
        for ending, one in zip(endings, settled, strict=True):
            self._counted["settled"] += one.decision is not None
            if one.stop:
                stop(self._observations, self._deactivate, ending.run, one.stop, ending.trigger)

    def _ask(self) -> None:
        adoption = self._adoption or self._move_in()
        if self._in_doubt:
            self._take_stock(adoption)
        if self._monotonic() >= self._next_look:
            self._tend()
            self._take_up(adoption.of_the_lapsed(self._live.keys()))
            self._next_look = self._monotonic() + LOOK_SECONDS
        if self._drain_at == _NEVER:
            self._claim(adoption.place)

    def _move_in(self) -> Adoption:
        with self._database.read() as connection:
            place = WorkPlace(self._settings.work_dir, fresh(self._database.clock.now(connection)))
        place.occupy()
        self._adoption = Adoption(self._database, self._launchers, place, self._settings.lease)
        return self._adoption

    def _take_stock(self, adoption: Adoption) -> None:
        """At the beginning, and after a failure, when a commit whose answer was lost may have left unknown claims."""
        self._take_up(adoption.of_mine(self._live.keys()))
        self._take_up(adoption.of_the_dead())
        if not adoption.place.is_shared():
            adoption.clear()
        self._in_doubt = False

    def _take_up(self, taken: Sequence[Taken]) -> None:
        for one in taken:
            run = one.run
            match one.found:
                case Attempt() as attempt:
                    self._add(attempt)
                    self._counted["adopted"] += 1
                    self._emit("run.adopted", **attempt.facts)
                case Unseen() as unseen:
                    assert self._adoption is not None
                    self._counted["adopted"] += 1
                    self._launch(self._adoption.place, unseen.claimed, unseen.now, stored=unseen.stored)
                case Ended(Outcome.LOST) as ended:
                    self._counted["lost"] += 1
                    self._emit("run.lost", **facts_of(run, one.trigger))
                    self._settle(Ending(run, ended, trigger=one.trigger))
                case ended:
                    self._settle(Ending(run, ended, trigger=one.trigger))

    def _tend(self) -> None:
        """Renews leases when it is time, stores what was printed, ends what was cancelled, drops what is not ours."""
        if not self._live:
            return
        attempts = dict(self._live)
        printed = {key: pieces for key, one in attempts.items() if (pieces := self._printed(one, LOG_BYTES_PER_LOOK))}
        held = [attempt.run for attempt in attempts.values()]
        if printed or self._monotonic() >= self._next_renewal:
            standings = self._renew(held, printed)
        else:
            with self._database.read() as connection:
                standings = claims.standings(connection, held)
        for key, standing in standings.items():
            attempt = attempts[key]
            if not standing.held:
                self._drop(attempt)
            elif standing.cancel_requested:
                self._ask_to_end(attempt, Outcome.CANCELLED, force=standing.cancel_forced)

    def _ask_to_end(self, attempt: Attempt, why: Outcome, *, force: bool = False) -> None:
        try:
            attempt.end(why, self._monotonic(), force=force)
        except Exception as error:  # noqa: BLE001 - as in `_watch`, which will force it
            self._tell_unreadable(attempt, error)

    def _printed(self, attempt: Attempt, limit: int, *, whole: bool = False) -> list[logs.Piece]:
        """What an attempt printed since, nothing while that cannot be read."""
        try:
            return attempt.printed(limit, whole=whole)
        except Exception as error:  # noqa: BLE001 - as in `_watch`
            self._tell_unreadable(attempt, error)
            return []

    def _tell_unreadable(self, attempt: Attempt, error: Exception) -> None:
        self._emit("work.unreadable", **attempt.facts, error=str(error) or repr(error))

    def _drop(self, attempt: Attempt) -> None:
        """Ends work whose claim is another's or was settled; settling it changes nothing any more, and records that."""
        printed = self._printed(attempt, LOG_BYTES_AT_END, whole=True)
        del self._live[attempt.key]
        self._remove(attempt)
        self._settle(Ending(attempt.run, Ended(Outcome.LOST), printed, attempt.trigger))

    def _renew(self, held: Sequence[Run], printed: Mapping[tuple[str, int], list[logs.Piece]]) -> Standings:
        begun = self._monotonic()
        with self._database.write() as connection:
            now = self._database.clock.now(connection)
            standings = claims.renew(connection, held, now, self._settings.lease)
            ours = {key: pieces for key, pieces in printed.items() if standings[key].held}
            attempts = self._live
            logs.append(connection, {(key[0], attempts[key].run.attempt): pieces for key, pieces in ours.items()})
        for key, pieces in ours.items():
            attempts[key].stored = pieces[-1].end
        self._next_renewal = begun + self._settings.lease.total_seconds() / 3
        self._emit("lease.renewed", count=sum(standing.held for standing in standings.values()))
        return standings

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
                self._settle(Ending(one.run, Ended(Outcome.HANDED_BACK), trigger=one.trigger))
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
        facts = {"at": now + timedelta(seconds=waited), "seconds": self._monotonic() - begun}
        self._emit("launch.tried", run=one.run, error=found.error if isinstance(found, Ended) else None, **facts)
        match found:
            case Attempt() as attempt:
                self._add(attempt)
                if stored is None:
                    self._emit("run.started", **attempt.facts, source=one.run.source)
                else:
                    self._emit("run.adopted", **attempt.facts)
            case ended:
                self._settle(Ending(one.run, ended, trigger=one.trigger))

    def _add(self, attempt: Attempt) -> None:
        self._live[attempt.key] = attempt

    def _remove(self, attempt: Attempt) -> None:
        """Ends the work if it is not over, and removes what is left of it."""
        try:
            attempt.work.cancel(force=True)
            attempt.work.forget()
            if self._adoption is not None:
                handed.forget(self._adoption.place.folder(attempt.run.id, attempt.run.attempt))
        except Exception as error:  # noqa: BLE001 - as in `_watch`
            self._emit("attempt.left_behind", **attempt.facts, error=str(error) or repr(error))

    def _monotonic(self) -> float:
        return self._database.clock.monotonic()

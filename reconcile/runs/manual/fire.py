"""Runs by hand: fire now, with an input, whatever the schedule says; one trigger, or many (X-11)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reconcile.decide.concurrency import DISPLACING, POLICIES, room
from reconcile.observations.observation import Observations, Progress
from reconcile.observations.runs import RunFired, WaitEnded
from reconcile.runs.creation import outcome_of
from reconcile.runs.manual import targets
from reconcile.triggers.append import NEW_KEY
from reconcile.triggers.caller import Caller
from revisions import ids
from revisions.errors import Conflict, Forbidden, Invalid, NotFound
from revisions.ids import TriggerKey
from revisions.outcomes import RunSource
from revisions.spec import documents
from revisions.store import notices, run_orders
from revisions.store import runs as run_store
from revisions.store import status as status_store
from revisions.store import triggers as trigger_store
from revisions.store.database import Database
from revisions.store.run_orders import Displacement
from revisions.store.runs import NewRun, Run

Refusal = NotFound | Invalid | Conflict | Forbidden


@dataclass(frozen=True, slots=True)
class Fired:
    """What became of one of many: its run, or why there is none."""

    trigger: TriggerKey
    outcome: Run | Refusal


class Firing:
    """Makes manual runs; they are not scheduled, so neither rate nor activation holds them back."""

    def __init__(self, database: Database, observations: Observations) -> None:
        self._database = database
        self._observations = observations

    def fire(self, key: TriggerKey, input: Mapping[str, Any] | None, caller: Caller, overlap: str | None = None) -> Run:
        """One pending run; with an idempotency key used before, the run it made then.

        `input` stands over the trigger's own, name by name. Raises NotFound (also for a deleted trigger), Invalid for
        an input that the task does not declare, Forbidden where its author may start nothing (X-15), and Conflict
        under a freeze, for what the budget does not buy, and while a run goes on, unless `overlap` says otherwise.
        """
        _check(input, overlap)
        with self._database.write() as connection:
            target = targets.locked(self._database, connection, key)
            targets.check_input(target, input)
            new = target.run(
                f"manual/{caller.idempotency_key or ids.fresh(target.now)}",
                target.now,
                source=RunSource.MANUAL,
                overlap=overlap or "allow",
                caller=caller,
                input=input,
            )
            if (first := run_store.stored_ids(connection, [new])) and (
                made := run_store.get(connection, first[new.id])
            ):
                return _same_request(made, new, caller)
            targets.refuse_frozen(connection, key.project, target.now)
            targets.refuse_denied(connection, target.trigger, target.now)
            live = run_store.newest_live_id(connection, new.trigger_id)
            if live and room(overlap or "skip", target.facts.live_runs) == 0:
                hint = "cancel it, wait for it, or allow the overlap (--overlap allow)"
                raise Conflict.hinted("overlap", f"run {live} of {key} goes on, so nothing was fired", hint)
            target.refuse_beyond(1)
            displaced = []
            if live and overlap in DISPLACING:
                displaced = [Displacement(new.trigger_id, new.id, forced=overlap == "terminate")]
            over = run_orders.displace(connection, displaced, target.now)
            run_store.create(connection, [new])
            status_store.record_manual_fires(connection, target.status, new.id, target.now, outcome=outcome_of(new))
            notices.runs_pending(connection)
            made = run_store.get(connection, new.id)
        assert made is not None
        self._observations.emit(RunFired(made, key, caller.actor))
        for run in over:
            self._observations.emit(WaitEnded(run, key, target.now))
        return made

    def fire_all(
        self,
        chosen: Sequence[TriggerKey] | str,
        input: Mapping[str, Any] | None,
        caller: Caller,
        overlap: str | None,
        progress: Progress,
        *,
        projects: Collection[str] | None = None,
    ) -> list[Fired]:
        """Fires each of some triggers, or of those of these projects that bear a tag now: what one refuses stops none.

        Raises Invalid for what no trigger could take.
        """
        _check(input, overlap)
        if isinstance(chosen, str):
            with self._database.read() as connection:
                chosen = trigger_store.tagged(connection, chosen, projects)
        fired: list[Fired] = []
        for key in sorted(chosen):
            outcome: Run | Refusal
            try:
                outcome = self.fire(key, input, caller, overlap)
            except (NotFound, Invalid, Conflict, Forbidden) as refused:
                outcome = refused
            fired.append(Fired(key, outcome))
            progress(len(fired), len(chosen))
        return fired


def _check(input: Mapping[str, Any] | None, overlap: str | None) -> None:
    if overlap is not None and overlap not in POLICIES:
        raise Invalid.at("overlap", f"{overlap!r} is not known", f"one of {', '.join(POLICIES)}")
    documents.check(input or {}, "input")


def _same_request(made: Run, new: NewRun, caller: Caller) -> Run:
    if made.input != new.input:
        detail = f"Idempotency-Key {caller.idempotency_key!r} was used for another fire, run {made.id}"
        raise Conflict.hinted("Idempotency-Key", detail, NEW_KEY)
    return made

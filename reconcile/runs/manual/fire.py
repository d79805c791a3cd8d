"""Fire triggers by hand: create one run now, whatever the schedule says, for one trigger or for many (X-11).

Neither the rate nor the trigger's activation holds these runs back.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reconcile.decide.admission import DISPLACING, POLICIES, room
from reconcile.decide.authority import Caller
from reconcile.observations.observation import Observations, Progress
from reconcile.observations.runs import RunFired, WaitEnded
from reconcile.runs.claim import outcome_of
from reconcile.runs.manual import targets
from reconcile.triggers.append import NEW_KEY
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
    """Result for one of many triggers: its run, or why it refused."""

    trigger: TriggerKey
    outcome: Run | Refusal


def fire_trigger(
    database: Database,
    observations: Observations,
    key: TriggerKey,
    input: Mapping[str, Any] | None,
    caller: Caller,
    overlap: str | None = None,
) -> Run:
    """Create one pending run; with an idempotency key that was used before, return the run made then.

    Each name in `input` replaces the trigger's own value of that name. Raises NotFound (also for a deleted trigger),
    Invalid for an input that the task does not declare, Forbidden when the trigger's author may start nothing (X-15),
    and Conflict under a freeze, beyond the budget, and while a run is live unless `overlap` allows another one.
    """
    _check_request(input, overlap)
    with database.write() as connection:
        target = targets.lock_target(database, connection, key)
        targets.check_input(target, input)
        new = target.new_run(
            f"manual/{caller.idempotency_key or ids.fresh(target.now)}",
            target.now,
            source=RunSource.MANUAL,
            overlap=overlap or "allow",
            caller=caller,
            input=input,
        )
        earlier = run_store.stored_ids(connection, [new])
        if earlier and (run := run_store.get(connection, earlier[new.id])):
            return _same_request(run, new, caller)
        targets.refuse_frozen(connection, key.project, target.now)
        targets.refuse_denied(connection, target.trigger, target.now)
        live = run_store.newest_live_id(connection, new.trigger_id)
        if live and room(overlap or "skip", target.facts.live_runs) == 0:
            hint = "cancel it, wait for it, or allow the overlap (--overlap allow)"
            raise Conflict.hinted("overlap", f"run {live} of {key} goes on, so nothing was fired", hint)
        target.refuse_beyond_budget(1)
        displacements = []
        if live and overlap in DISPLACING:
            displacements = [Displacement(new.trigger_id, new.id, forced=overlap == "terminate")]
        displaced = run_orders.displace(connection, displacements, target.now)
        run_store.create(connection, [new])
        status_store.record_manual_fires(connection, target.status, new.id, target.now, outcome=outcome_of(new))
        notices.runs_pending(connection)
        run = run_store.get(connection, new.id)
    assert run is not None
    observations.emit(RunFired(run, key, caller.actor))
    for ended in displaced:
        observations.emit(WaitEnded(ended, key, target.now))
    return run


def fire_triggers(
    database: Database,
    observations: Observations,
    selection: Sequence[TriggerKey] | str,
    input: Mapping[str, Any] | None,
    caller: Caller,
    overlap: str | None,
    progress: Progress,
    *,
    projects: Collection[str] | None = None,
) -> list[Fired]:
    """Fire each of the selected triggers in a transaction of its own; a trigger that refuses does not stop the others.

    A tag selects the triggers of `projects` (None: all) that bear it now. `progress` is called after each trigger.
    Raises Invalid for a request that every trigger would refuse.
    """
    _check_request(input, overlap)
    if isinstance(selection, str):
        with database.read() as connection:
            selection = trigger_store.tagged(connection, selection, projects)
    fired: list[Fired] = []
    for key in sorted(selection):
        outcome: Run | Refusal
        try:
            outcome = fire_trigger(database, observations, key, input, caller, overlap)
        except (NotFound, Invalid, Conflict, Forbidden) as refusal:
            outcome = refusal
        fired.append(Fired(key, outcome))
        progress(len(fired), len(selection))
    return fired


def _check_request(input: Mapping[str, Any] | None, overlap: str | None) -> None:
    if overlap is not None and overlap not in POLICIES:
        raise Invalid.at("overlap", f"{overlap!r} is not known", f"one of {', '.join(POLICIES)}")
    documents.check(input or {}, "input")


def _same_request(run: Run, new: NewRun, caller: Caller) -> Run:
    """Return the run that an earlier request made. Raises Conflict when that request had another input (R-04)."""
    if run.input != new.input:
        detail = f"Idempotency-Key {caller.idempotency_key!r} was used for another fire, run {run.id}"
        raise Conflict.hinted("Idempotency-Key", detail, NEW_KEY)
    return run

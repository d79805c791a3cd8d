"""New runs, built the same way for the schedule and for what people start by hand (X-02)."""

from datetime import datetime

from reconcile.decide.authority import CausingRun
from reconcile.decide.terms import Terms
from revisions import ids
from revisions.outcomes import OccurrenceOutcome, RunSource
from revisions.spec.stored import readable_task
from revisions.store.runs import NewRun
from revisions.store.trigger_facts import TriggerFacts


def new_run(
    facts: TriggerFacts,
    terms: Terms,
    now: datetime,
    *,
    occurrence_id: str,
    scheduled_at: datetime,
    source: RunSource,
    overlap: str,
    actor: str,
    input: str,
    start_by: datetime | None,
    reserved: float | None,
    traceparent: str | None = None,
    cause: CausingRun | None = None,
) -> NewRun:
    """Build a run of a trigger's current revision: pending, or parked until somebody approves it (X-14).

    `input` is canonical JSON text, `reserved` the part of the budget that the run may cost, `start_by` the instant at
    which it expires unless a worker claimed it. A parked run does not expire. `cause` is the run that asked for it.
    """
    task = readable_task(facts.task_spec) if facts.task_spec else None
    is_parked = terms.spec.requires_approval or (task is not None and task.requires_approval)
    return NewRun(
        id=ids.fresh(now),
        trigger_id=facts.trigger_id,
        occurrence_id=occurrence_id,
        revision=facts.revision,
        project=facts.project,
        domain=facts.domain,
        task=facts.task,
        task_version=facts.task_version,
        source=source,
        overlap=overlap,
        max_attempts=terms.spec.retry.max_attempts,
        actor=actor,
        scheduled_at=scheduled_at,
        created_at=now,
        input=input,
        start_by=None if is_parked else start_by,
        task_limit=task.concurrency_limit if task else None,
        reserved=reserved,
        parked=is_parked,
        traceparent=traceparent,
        caused_by_run_id=cause.run_id if cause else None,
        caused_by_trigger_id=cause.trigger_id if cause else None,
    )


def outcome_of(new: NewRun) -> OccurrenceOutcome:
    """Return the outcome of an occurrence that has this run (E-05)."""
    return OccurrenceOutcome.PARKED if new.parked else OccurrenceOutcome.STARTED

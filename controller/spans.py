"""What is told as spans: subscribed to the observations as metrics and logs are (O-04)."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from controller.tracing import Tracing
from reconcile.decide import trace_context
from reconcile.decide.retry import AttemptOutcome, Decision, HandBack, RunEnd
from reconcile.decide.trace_context import Context
from reconcile.observe import Subscriber
from reconcile.runs.attempt import Ended
from reconcile.triggers.caller import Caller
from revisions.history.triggers import Trigger
from revisions.ids import TriggerKey, utc_text
from revisions.store.runs import NewRun, Run

BAD = (AttemptOutcome.FAILED, AttemptOutcome.TIMED_OUT, AttemptOutcome.LOST)


class Spans:
    """Records each span when what it stands for is over, from what its observation says; nothing is kept meanwhile."""

    def __init__(self, tracing: Tracing) -> None:
        self.tracing = tracing

    def subscriber(self, name: str, facts: dict[str, Any]) -> None:
        """Records what an observation tells of."""
        match name:
            case "change.made":
                self._change(**facts)
            case "pass.decided":
                if facts["made"] or facts["skips"] or facts["backlogs"]:
                    self._pass(facts)
            case "launch.tried":
                self._launch(**facts)
            case "attempt.ended":
                self._attempt(**facts)
            case "wait.ended":
                run = facts["run"]
                self._run(run, facts["trigger"], run.status, facts["at"])

    def traceparent(self, run: Run) -> str:
        """What an attempt is told that it is part of: itself."""
        return str(trace_context.of_attempt(self._context(run), run.id, run.attempt))

    def naming(self, subscriber: Subscriber) -> Subscriber:
        """A subscriber who is told the trace of each run as well."""

        def told(name: str, facts: dict[str, Any]) -> None:
            if run_id := facts.get("run_id"):
                parent = trace_context.parse(facts.get("traceparent"))
                facts = {**facts, "trace_id": trace_context.of_run(run_id, parent, 0).trace}
            subscriber(name, facts)

        return told

    def _context(self, run: Run | NewRun) -> Context:
        parent = _parent(run)
        return self.tracing.sampled(trace_context.of_run(run.id, parent, run.max_attempts), parent)

    def _change(self, trigger: Trigger, caller: Caller, seconds: float) -> None:
        request = trace_context.parse(caller.traceparent)
        attributes = {
            "triggerctl.trigger": str(trigger.key),
            "triggerctl.trigger_id": trigger.trigger_id,
            "triggerctl.revision": trigger.revision,
            "triggerctl.actor": trigger.changed_by,
            "triggerctl.active": trigger.active,
            "triggerctl.deleted": trigger.deleted,
        }
        own = trace_context.of_change(request, trigger.trigger_id, trigger.revision) if request else None
        end = trigger.changed_at + timedelta(seconds=seconds)
        self.tracing.record("change", trigger.changed_at, end, attributes, parent=request, own=own)

    def _pass(self, facts: Mapping[str, Any]) -> None:
        """The pass, a trace of its own, and each run that it made, with links to the pass and the revision's change."""
        at = facts["at"]
        attributes = {
            "triggerctl.started": len(facts["made"]),
            "triggerctl.skips": len(facts["skips"]),
            "triggerctl.backlogs": len(facts["backlogs"]),
        }
        end = at + timedelta(seconds=facts["seconds"])
        decided = self.tracing.record(f"{facts['kind']} pass", at, end, attributes)
        for run in facts["made"]:
            if not (context := self._context(run)).is_sampled:
                continue
            links, change = [decided], trace_context.parse(facts["changes"].get(run.trigger_id))
            if change:
                links.append(trace_context.of_change(change, run.trigger_id, run.revision))
            self.tracing.record("occurrence", at, at, _of(run), parent=context, links=links)

    def _launch(self, run: Run, at: datetime, seconds: float, error: str | None) -> None:
        if not (context := self._context(run)).is_sampled:
            return
        parent = trace_context.of_attempt(context, run.id, run.attempt)
        attributes = {**_of(run), "triggerctl.attempt": run.attempt}
        self.tracing.record("launch", at, at + timedelta(seconds=seconds), attributes, parent=parent, error=error)

    def _attempt(
        self, run: Run, trigger: TriggerKey | None, ended: Ended, decision: Decision, at: datetime, seconds: float
    ) -> None:
        """An attempt from its claim to its end, how that was settled, and the run when it is over with it."""
        if not (context := self._context(run)).is_sampled:
            return
        began = run.started_at or at
        attributes = {**_of(run), "triggerctl.attempt": run.attempt, "triggerctl.outcome": ended.outcome.value}
        if isinstance(decision, HandBack):
            self.tracing.record("hand back", at, at, attributes, parent=context)
            return
        attempt = trace_context.of_attempt(context, run.id, run.attempt)
        error = (ended.error or ended.outcome.value) if ended.outcome in BAD else None
        self.tracing.record("attempt", began, at, attributes, parent=context, own=attempt, error=error)
        self.tracing.record("settle", at, at + timedelta(seconds=seconds), attributes, parent=attempt)
        if isinstance(decision, RunEnd):
            self._run(run, trigger, decision.status, at, error)

    def _run(self, run: Run, trigger: object, status: str, at: datetime, error: str | None = None) -> None:
        """A run from its making to its end, whatever restarts lay between."""
        parent, cause = _parent(run), trace_context.parse(run.traceparent)
        links = [cause] if cause and not parent else []
        attributes = {
            **_of(run),
            "triggerctl.trigger": str(trigger) if trigger else None,
            "triggerctl.status": status,
            "triggerctl.attempts": run.attempt,
        }
        own = self._context(run)
        self.tracing.record("run", run.created_at, at, attributes, parent=parent, own=own, links=links, error=error)


def _parent(run: Run | NewRun) -> Context | None:
    return trace_context.parse(trace_context.continued(run.source, run.traceparent))


def _of(run: Run | NewRun) -> dict[str, Any]:
    return {
        "triggerctl.run_id": run.id,
        "triggerctl.trigger_id": run.trigger_id,
        "triggerctl.project": run.project,
        "triggerctl.domain": run.domain,
        "triggerctl.task": run.task,
        "triggerctl.task_version": run.task_version,
        "triggerctl.revision": run.revision,
        "triggerctl.source": run.source,
        "triggerctl.occurrence_id": run.occurrence_id,
        "triggerctl.scheduled_at": utc_text(run.scheduled_at),
    }

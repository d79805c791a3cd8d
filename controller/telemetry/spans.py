"""Spans of requests and spans recorded from observations (O-04).

A request that changes something has a span in the caller's trace or in a new one. Reads are recorded only if the caller
traces them: pages and probes read all the time.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bound_contextvars

from controller.api.parameters import TRACEPARENT
from controller.auth.access import PRINCIPAL
from controller.auth.guard import SAFE
from controller.telemetry.tracing import Tracing
from reconcile.decide import trace_context
from reconcile.decide.attempt_ends import AttemptOutcome, HandBack, RunEnd
from reconcile.decide.trace_context import Context, parse
from reconcile.observations.observation import Observation
from reconcile.observations.passes import PassDecided
from reconcile.observations.runs import AttemptEnded, LaunchTried, WaitEnded
from reconcile.observations.specs import TriggerChanged
from revisions.ids import TriggerKey, utc_text
from revisions.outcomes import RunStatus
from revisions.store.runs import NewRun, Run

BAD = (AttemptOutcome.FAILED, AttemptOutcome.TIMED_OUT, AttemptOutcome.LOST)


class Spans:
    """Record each span from the observation that ends it; nothing is kept in between."""

    def __init__(self, tracing: Tracing) -> None:
        self.tracing = tracing

    def record(self, observation: Observation) -> None:
        """Record the spans that an observation completes."""
        match observation:
            case TriggerChanged():
                self._record_change(observation)
            case PassDecided() if observation.made or observation.skips or observation.backlogs:
                self._record_pass(observation)
            case LaunchTried():
                self._record_launch(observation)
            case AttemptEnded():
                self._record_attempt(observation)
            case WaitEnded(run, trigger, at):
                self._record_run(run, trigger, run.status, at)

    def traceparent(self, run: Run) -> str:
        """Return the traceparent that an attempt passes to its task: that of the attempt's own span."""
        return str(trace_context.of_attempt(self._context(run), run.id, run.attempt))

    def _context(self, run: Run | NewRun) -> Context:
        parent = _parent(run)
        return self.tracing.sampled(trace_context.of_run(run.id, parent, run.max_attempts), parent)

    def _record_change(self, change: TriggerChanged) -> None:
        request, trigger = trace_context.parse(change.traceparent), change.trigger
        attributes = {
            "triggerctl.trigger": str(trigger.key),
            "triggerctl.trigger_id": trigger.trigger_id,
            "triggerctl.revision": trigger.revision,
            "triggerctl.actor": trigger.changed_by,
            "triggerctl.active": trigger.active,
            "triggerctl.deleted": trigger.deleted,
        }
        own = trace_context.of_change(request, trigger.trigger_id, trigger.revision) if request else None
        end = trigger.changed_at + timedelta(seconds=change.seconds)
        self.tracing.record("change", trigger.changed_at, end, attributes, parent=request, own=own)

    def _record_pass(self, decided: PassDecided) -> None:
        """Record the pass in a trace of its own, and each run it made, linked to the pass and the revision's change."""
        attributes = {
            "triggerctl.started": len(decided.made),
            "triggerctl.skips": len(decided.skips),
            "triggerctl.backlogs": len(decided.backlogs),
        }
        at, end = decided.at, decided.at + timedelta(seconds=decided.seconds)
        own = self.tracing.record(f"{decided.kind} pass", at, end, attributes)
        for run in decided.made:
            if not (context := self._context(run)).is_sampled:
                continue
            links, change = [own], trace_context.parse(decided.changes.get(run.trigger_id))
            if change:
                links.append(trace_context.of_change(change, run.trigger_id, run.revision))
            self.tracing.record("occurrence", at, at, _attributes(run), parent=context, links=links)

    def _record_launch(self, launch: LaunchTried) -> None:
        run, at = launch.run, launch.at
        if not (context := self._context(run)).is_sampled:
            return
        parent = trace_context.of_attempt(context, run.id, run.attempt)
        attributes = {**_attributes(run), "triggerctl.attempt": run.attempt}
        end = at + timedelta(seconds=launch.seconds)
        self.tracing.record("launch", at, end, attributes, parent=parent, error=launch.error)

    def _record_attempt(self, ended: AttemptEnded) -> None:
        """Record an attempt from its claim to its end and its settling, and the run where it is over, too."""
        run, at = ended.run, ended.at
        if not (context := self._context(run)).is_sampled:
            return
        began = run.started_at or at
        attributes = {**_attributes(run), "triggerctl.attempt": run.attempt, "triggerctl.outcome": ended.outcome.value}
        if isinstance(ended.decision, HandBack):
            self.tracing.record("hand back", at, at, attributes, parent=context)
            return
        attempt = trace_context.of_attempt(context, run.id, run.attempt)
        error = (ended.error or ended.outcome.value) if ended.outcome in BAD else None
        self.tracing.record("attempt", began, at, attributes, parent=context, own=attempt, error=error)
        settled_at = at + timedelta(seconds=ended.seconds)
        self.tracing.record("settle", at, settled_at, attributes, parent=attempt)
        if isinstance(ended.decision, RunEnd):
            self._record_run(run, ended.trigger, ended.decision.status, at, error)

    def _record_run(
        self, run: Run, trigger: TriggerKey | None, status: RunStatus, at: datetime, error: str | None = None
    ) -> None:
        """Record a run from its creation to its end, whatever restarts lay between."""
        parent, cause = _parent(run), trace_context.parse(run.traceparent)
        links = [cause] if cause and not parent else []
        attributes = {
            **_attributes(run),
            "triggerctl.trigger": str(trigger) if trigger else None,
            "triggerctl.status": status,
            "triggerctl.attempts": run.attempt,
        }
        own = self._context(run)
        self.tracing.record("run", run.created_at, at, attributes, parent=parent, own=own, links=links, error=error)


def _parent(run: Run | NewRun) -> Context | None:
    return trace_context.parse(trace_context.continued(run.source, run.traceparent))


def _attributes(run: Run | NewRun) -> dict[str, Any]:
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


_NAMES_OF_TRIGGERS = frozenset(TriggerKey._fields)


class TraceRequests:
    """Outermost middleware, so that refusals are traced too. Queries, headers and bodies are not recorded."""

    def __init__(self, app: ASGIApp, tracing: Tracing) -> None:
        self._app = app
        self._tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        parent = parse(Headers(scope=scope).get("traceparent")) if scope["type"] == "http" else None
        if scope["type"] != "http" or (scope["method"] in SAFE and parent is None):
            await self._app(scope, receive, send)
            return
        method, matched = scope["method"], scope["app"].state.route_table.match(scope["path"])
        route = matched.path if matched else None
        attributes = {"http.request.method": method, "http.route": route, "url.scheme": scope["scheme"]}
        status = 500

        async def send_watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        with self._tracing.request(f"{method} {route}" if route else method, attributes, parent) as span:
            scope[TRACEPARENT] = str(span.context)
            try:
                with bound_contextvars(trace_id=span.context.trace):
                    await self._app(scope, receive, send_watched)
            finally:
                names = matched.parameters if matched else {}
                span.set_answer(status, {**_named(names), "triggerctl.actor": _actor(scope)})


def _named(names: Mapping[str, str]) -> dict[str, str]:
    """Return the trigger that a path names; other path parameters may be secret."""
    return {"triggerctl.trigger": str(TriggerKey(**names))} if names.keys() == _NAMES_OF_TRIGGERS else {}


def _actor(scope: Scope) -> str | None:
    return scope[PRINCIPAL].actor if PRINCIPAL in scope else None

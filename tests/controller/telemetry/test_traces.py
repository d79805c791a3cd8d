"""Traces: one from the request of a deploy, one from an occurrence or a fire down to the task."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from opentelemetry.trace import StatusCode

from controller.telemetry import logs
from controller.telemetry.spans import TraceRequests
from reconcile.decide.attempt_ends import AttemptOutcome
from reconcile.decide.authority import Caller
from reconcile.observations.observation import Observations
from reconcile.plugins import launchers
from reconcile.runs.attempt import Ended
from reconcile.runs.attempt_secrets import Vault
from reconcile.runs.runner import Runner, RunnerSettings
from reconcile.runs.settle import complete_run
from revisions.store.runs import Run
from tests.controller.asking import IS_NEW, Api, T, at, manifest, task_manifest
from tests.controller.conftest import Cli, Network
from tests.controller.telemetry.telling import RecordedSpans, attribute, ids_of, is_child, linked_ids, traceparent_of
from tests.reconcile.scripted import ScriptedLauncher
from tests.waiting import eventually
from tests.world import World

BUILD = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
"""`traceparent` of a build that deploys and fires."""
BUILD_TRACE, BUILD_SPAN = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7
TASK_WITH_TRACEPARENT = """
import json, os
json.dump({"traceparent": os.environ.get("TRACEPARENT")}, open(os.environ["TRIGGERCTL_OUTPUT"], "w"))
"""


@pytest.fixture
def recorded(world: World, observations: Observations) -> RecordedSpans:
    recorded = RecordedSpans()
    recorded.subscribe_to(world.observations, observations)
    return recorded


@pytest.fixture
def traced(app: FastAPI, recorded: RecordedSpans) -> Iterator[Api]:
    """The API of a controller that records traces."""
    app.add_middleware(TraceRequests, tracing=recorded.spans.tracing)
    with httpx.Client(transport=Network(app), base_url="http://test") as client:
        yield Api(client)


class RunnerSetup:
    """Runner and scripted launcher for the runs of a world."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.folder = world, folder
        self.launcher = ScriptedLauncher()

    def runner(self, recorded: RecordedSpans) -> Runner:
        return recorded.runner(self.world, {"process": self.launcher}, self.folder)

    def due(self) -> Run:
        """Advance a minute, and return the run that became due."""
        self.world.advance(minutes=1)
        self.world.resync()
        return self.world.runs()[-1]

    @property
    def traceparent(self) -> str:
        """The `TRACEPARENT` passed to the newest attempt."""
        return self.launcher.last.launch.environment["TRACEPARENT"]


@pytest.fixture
def setup(world: World, tmp_path: Path) -> RunnerSetup:
    return RunnerSetup(world, tmp_path / "work")


def nanoseconds(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000


def test_a_deploy_is_one_trace_from_its_request(traced: Api, recorded: RecordedSpans) -> None:
    """O-04: it continues the sender's trace, and the span of the change is a child of the request's."""
    assert traced.put(T, manifest(), IS_NEW | {"traceparent": BUILD}).status_code == 201
    request, change = recorded.one("PUT /api/v1/triggers/{project}/{domain}/{task}/{name}"), recorded.one("change")
    assert request.parent is not None
    assert (request.context.trace_id, request.parent.span_id) == (BUILD_TRACE, BUILD_SPAN)
    assert attribute(request, "http.response.status_code") == 201
    assert is_child(change, request)
    assert attribute(change, "triggerctl.trigger") == "acme/production/report/tick"
    assert (attribute(change, "triggerctl.revision"), attribute(change, "triggerctl.actor")) == (1, "local")


def test_a_request_without_a_trace_begins_one(traced: Api, recorded: RecordedSpans) -> None:
    """O-04: also with an invalid header; requests that only read are not recorded."""
    traced.put(T, manifest(), IS_NEW | {"traceparent": "nonsense"})
    traced.get(T)
    assert [span.name for span in recorded.all()] == ["change", "PUT /api/v1/triggers/{project}/{domain}/{task}/{name}"]
    assert recorded.all()[1].parent is None


def test_a_refused_request_is_recorded(traced: Api, recorded: RecordedSpans) -> None:
    """O-04: with its status; only a server error marks the span as an error."""
    assert traced.put(T, manifest(), at(7)).status_code == 412
    [refused] = recorded.all()
    assert attribute(refused, "http.response.status_code") == 412
    assert refused.status.status_code is StatusCode.UNSET


def test_an_occurrence_is_one_trace_down_to_the_task(
    traced: Api, recorded: RecordedSpans, world: World, tmp_path: Path
) -> None:
    """O-04: run → attempt → launch, with links to pass and deploy; the task gets the attempt as its parent."""
    task = task_manifest(process={"command": ["python3", "-c", TASK_WITH_TRACEPARENT]})
    assert traced.put("/tasks/acme/production/report/v2", task).status_code == 201
    traced.put(T, manifest(task_version="v2"), IS_NEW)
    change = recorded.one("change")
    world.advance(minutes=1)
    world.resync()
    runner = recorded.runner(world, launchers(), tmp_path / "work")
    runner.run_pass()
    eventually(lambda: runner.run_pass().live == 0)
    [ended_run] = world.runs()
    run, attempt = recorded.one("run"), recorded.one("attempt")
    assert f"{run.context.trace_id:032x}" == trace_of(ended_run)
    assert run.parent is None
    assert is_child(recorded.one("occurrence"), run)
    assert is_child(attempt, run)
    assert is_child(recorded.one("launch"), attempt)
    assert is_child(recorded.one("settle"), attempt)
    assert linked_ids(recorded.one("occurrence")) == {ids_of(recorded.one("due pass")), ids_of(change)}
    assert json.loads(ended_run.output or "")["traceparent"] == traceparent_of(attempt)
    assert ended_run.finished_at is not None
    assert (run.start_time, run.end_time) == (nanoseconds(ended_run.created_at), nanoseconds(ended_run.finished_at))
    assert attribute(run, "triggerctl.trigger") == "acme/production/report/tick"
    assert attribute(run, "triggerctl.run_id") == ended_run.id
    assert (attribute(run, "triggerctl.status"), run.status.status_code) == ("succeeded", StatusCode.UNSET)


def trace_of(run: Run) -> str:
    """Return the trace id of a run that continues no trace, by docs/observability.md: `printf %s RUN | sha256sum`."""
    return hashlib.sha256(run.id.encode()).hexdigest()[:32]


def test_attempts_are_spans_of_one_run(world: World, recorded: RecordedSpans, setup: RunnerSetup) -> None:
    """O-04: with error and times."""
    world.create(retry={"max_attempts": 2})
    runner, run = setup.runner(recorded), setup.due()
    runner.run_pass()
    first = setup.traceparent
    setup.launcher.last.fail("no such customer")
    runner.run_pass()
    world.advance(seconds=5)
    runner.run_pass()
    setup.launcher.last.fail("no such customer")
    runner.run_pass()
    run_span, attempts = recorded.one("run"), recorded.named("attempt")
    assert [traceparent_of(attempt) for attempt in attempts] == [first, setup.traceparent]
    assert [attribute(attempt, "triggerctl.attempt") for attempt in attempts] == [1, 2]
    assert all(is_child(attempt, run_span) for attempt in attempts)
    assert {span.status.description for span in (run_span, *attempts)} == {"no such customer"}
    assert (attribute(run_span, "triggerctl.attempts"), attribute(run_span, "triggerctl.status")) == (2, "failed")
    assert run_span.start_time == nanoseconds(run.created_at)


def test_a_run_keeps_its_trace_across_a_restart(world: World, recorded: RecordedSpans, setup: RunnerSetup) -> None:
    """O-04, invariant 5: another controller ends the run, with the span ids that the first one passed to the task."""
    world.create()
    run = setup.due()
    setup.runner(recorded).run_pass()
    world.advance(minutes=2)
    later = RecordedSpans()
    later.subscribe_to(world.observations)
    runner = setup.runner(later)
    eventually(lambda: runner.run_pass().live == 1)
    setup.launcher.last.succeed()
    runner.run_pass()
    attempt, run_span = later.one("attempt"), later.one("run")
    assert traceparent_of(attempt) == setup.traceparent
    assert is_child(attempt, run_span)
    assert is_child(recorded.one("occurrence"), run_span)
    assert (run_span.start_time, attempt.start_time) == (nanoseconds(run.created_at),) * 2
    assert run_span.end_time == nanoseconds(run.created_at) + 120 * 10**9


def test_a_run_handed_back_keeps_its_attempt_span(world: World, recorded: RecordedSpans, setup: RunnerSetup) -> None:
    """O-04, X-07: handing back uses no attempt, so it has a span of its own and the attempt's is recorded once."""
    world.create()
    setup.due()
    leaving = setup.runner(recorded)
    leaving.run_pass()
    first = setup.traceparent
    leaving.stop(timedelta(0))
    runner = setup.runner(recorded)
    runner.run_pass()
    setup.launcher.last.succeed()
    runner.run_pass()
    assert setup.traceparent == first
    assert traceparent_of(recorded.one("attempt")) == first
    assert is_child(recorded.one("hand back"), recorded.one("run"))


def test_a_run_retried_by_hand_stays_in_its_trace(world: World, recorded: RecordedSpans, setup: RunnerSetup) -> None:
    """O-04, X-11: under a new span id, because the span of the first end is already exported."""
    world.create(retry={"max_attempts": 1})
    runner, run = setup.runner(recorded), setup.due()
    runner.run_pass()
    setup.launcher.last.fail()
    runner.run_pass()
    world.retry(run.id, Caller("ann"))
    runner.run_pass()
    setup.launcher.last.succeed()
    runner.run_pass()
    first, second = recorded.named("run")
    assert first.context.trace_id == second.context.trace_id
    assert first.context.span_id != second.context.span_id
    assert is_child(recorded.named("attempt")[1], second)


def test_a_run_that_never_starts_has_a_span(
    world: World, recorded: RecordedSpans, setup: RunnerSetup, traced: Api
) -> None:
    """O-04, X-11, X-18: cancelled while pending, or expired."""
    world.create("cancelled")
    world.create("expired", start_within="30s")
    world.advance(minutes=1)
    world.resync()
    [waiting] = world.runs("cancelled")
    for _ in range(2):
        assert traced.post(f"/runs/{waiting.id}/cancel").status_code == 200
    world.advance(seconds=31)
    setup.runner(recorded).run_pass()
    assert [attribute(span, "triggerctl.status") for span in recorded.named("run")] == ["cancelled", "expired"]
    assert all(
        is_child(child, parent)
        for child, parent in zip(recorded.named("occurrence"), recorded.named("run"), strict=True)
    )


def test_a_run_fired_by_hand_continues_the_callers_trace(
    traced: Api, recorded: RecordedSpans, world: World, setup: RunnerSetup
) -> None:
    """O-04: from the caller over the request to the task."""
    world.create(active=False)
    assert traced.post(f"{T}/fire", headers={"traceparent": BUILD}).status_code == 201
    runner = setup.runner(recorded)
    runner.run_pass()
    setup.launcher.last.succeed()
    runner.run_pass()
    run = recorded.one("run")
    assert run.context.trace_id == BUILD_TRACE
    assert is_child(run, recorded.one("POST /api/v1/triggers/{project}/{domain}/{task}/{name}/fire"))
    assert traceparent_of(recorded.one("attempt")) == setup.traceparent


def test_a_callback_is_a_child_of_the_attempt(
    traced: Api, recorded: RecordedSpans, world: World, setup: RunnerSetup
) -> None:
    """O-04, X-10: if the service sends the `traceparent` that it got."""
    world.create()
    run = setup.due()
    setup.runner(recorded).run_pass()
    body = {"attempt": 1, "outcome": "succeeded"}
    assert traced.post(f"/runs/{run.id}/complete", body, {"traceparent": setup.traceparent}).status_code == 200
    attempt = recorded.one("attempt")
    assert is_child(recorded.one("POST /api/v1/runs/{id}/complete"), attempt)
    assert is_child(attempt, recorded.one("run"))


def test_each_run_of_a_backfill_has_its_own_trace(
    traced: Api, recorded: RecordedSpans, world: World, setup: RunnerSetup
) -> None:
    """O-04: with a link to the request."""
    world.create(active=False)
    world.advance(minutes=3)
    span = {"from": "2026-03-02T08:00:30Z", "to": "2026-03-02T08:02:30Z"}
    assert traced.post(f"{T}/backfill", span, {"traceparent": BUILD}).status_code == 200
    runner = setup.runner(recorded)
    for _ in range(2):  # the second starts when the first has ended
        runner.run_pass()
        setup.launcher.last.succeed()
    runner.run_pass()
    request = recorded.one("POST /api/v1/triggers/{project}/{domain}/{task}/{name}/backfill")
    run_spans = recorded.named("run")
    assert {f"{run.context.trace_id:032x}" for run in run_spans} == {trace_of(run) for run in world.runs()}
    assert [linked_ids(run) for run in run_spans] == [{ids_of(request)}] * 2


def test_without_tracing_the_callers_trace_is_passed_on(api: Api, world: World, tmp_path: Path) -> None:
    """O-04: as W3C Trace Context requires; a scheduled run has none to pass on."""
    world.create("asked", active=False)
    world.create("scheduled")
    asked = api.post(T.replace("tick", "asked") + "/fire", headers={"traceparent": BUILD}).json()["id"]
    world.advance(minutes=1)
    world.resync()
    launcher = ScriptedLauncher()
    settings = RunnerSettings(work_dir=tmp_path / "work", task_root=tmp_path)
    Runner(world.database, world.observations, {"process": launcher}, settings=settings).run_pass()
    traceparents = {work.launch.run_id: work.launch.environment.get("TRACEPARENT") for work in launcher.works}
    [scheduled] = world.runs("scheduled")
    assert traceparents == {asked: BUILD, scheduled.id: None}


def test_the_command_line_continues_the_trace_of_its_environment(
    cli: Cli, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O-04: of a build step or a task that fires."""
    world.create(active=False)
    monkeypatch.setenv("TRACEPARENT", BUILD)
    assert cli("fire", "acme/production/report/tick").status == 0
    [run] = world.runs()
    assert run.traceparent == BUILD


def test_a_share_of_the_traces_is_recorded(world: World, setup: RunnerSetup) -> None:
    """O-04: a run is recorded whole or not at all, and the task is told which; a caller's decision takes precedence."""
    half = RecordedSpans(ratio=0.5)
    half.subscribe_to(world.observations)
    world.create(overlap="allow", catchup={"policy": "all"})
    runner = setup.runner(half)
    world.advance(minutes=40)
    world.resync()
    for _ in range(3):
        runner.run_pass()
        for work in setup.launcher.works:
            work.succeed()
    runner.run_pass()
    traceparents = [work.launch.environment["TRACEPARENT"] for work in setup.launcher.works]
    recorded = {traceparent_of(attempt) for attempt in half.named("attempt")}
    assert {traceparent for traceparent in traceparents if traceparent.endswith("3")} == recorded
    assert 0 < len(recorded) < len(traceparents) == 40
    assert len(half.named("run")) == len(half.named("occurrence")) == len(recorded)
    nothing = RecordedSpans(ratio=0)
    assert attempt_traceparent(nothing, world, BUILD).endswith("01")
    assert attempt_traceparent(nothing, world, None).endswith("02")


def attempt_traceparent(recorded: RecordedSpans, world: World, traceparent: str | None) -> str:
    """Return the `TRACEPARENT` that an attempt of the first run would get."""
    return recorded.spans.traceparent(replace(world.runs()[0], traceparent=traceparent))


def test_spans_hold_no_content_of_requests(traced: Api, recorded: RecordedSpans) -> None:
    """O-04, X-12: no query, headers or bodies, and of paths only the route and a trigger's name."""
    secret = "hunter2"
    traced.client.put(
        f"/api/v1{T}?origin={secret}",
        json=manifest(input={"password": secret}),
        headers=IS_NEW | {"Authorization": f"Bearer {secret}", "Cookie": secret, "Idempotency-Key": secret},
    )
    traced.client.delete(f"/api/v1/tokens/{secret}")
    traced.client.post(f"/hooks/{secret}")
    assert len(recorded.all()) >= 3
    assert secret not in "".join(span.to_json() for span in recorded.all())


def test_log_lines_have_the_trace_id(
    traced: Api, recorded: RecordedSpans, world: World, setup: RunnerSetup, observations: Observations,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """O-04, O-05: lines about a run and lines written during a request, those of libraries included."""
    logs.configure("info", "json")
    for source in (world.observations, observations):
        source.subscribe(logs.write_with_trace)
    world.create("own")
    traced.put(T, manifest(active=False), IS_NEW | {"traceparent": BUILD})
    traced.post(f"{T}/fire", headers={"traceparent": BUILD})
    world.advance(minutes=1)
    world.resync()
    setup.runner(recorded).run_pass()
    [scheduled] = world.runs("own")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    traces = {(line["event"], line.get("trigger", "").rpartition("/")[2]): line.get("trace_id") for line in lines}
    build = BUILD[3:35]
    assert traces["trigger.changed", "tick"] == traces["run.fired", "tick"] == traces["run.started", "tick"] == build
    assert traces["run.started", "own"] == trace_of(scheduled)
    assert traces["trigger.changed", "own"] is None
    assert "traceparent" not in {name for line in lines for name in line}


def test_a_replica_without_runner_ends_the_same_attempt_span(
    world: World, tmp_path: Path, setup: RunnerSetup, recorded: RecordedSpans
) -> None:
    """O-04: a replica that serves only the API records the attempt with the span id that the runner gave it."""
    world.create()
    run = setup.due()
    setup.runner(recorded).run_pass()
    serving, observations = RecordedSpans(), Observations()
    serving.subscribe_to(observations)
    ended = Ended(AttemptOutcome.SUCCEEDED, output={})
    complete_run(world.database, observations, run.id, 1, ended, vault=Vault(), work_dir=tmp_path / "elsewhere")
    assert traceparent_of(serving.one("attempt")) == setup.traceparent

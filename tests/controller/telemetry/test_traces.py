"""One trace from a deploy, and one from an occurrence to the task, whoever works on it in between."""

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
from tests.controller.telemetry.telling import Telling, fact, header, is_child, links, place
from tests.reconcile.scripted import ScriptedLauncher
from tests.waiting import eventually
from tests.world import World

BUILD = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
"""What some build is, which deploys and fires."""
BUILD_TRACE, BUILD_SPAN = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7
TOLD = """
import json, os
json.dump({"told": os.environ.get("TRACEPARENT")}, open(os.environ["TRIGGERCTL_OUTPUT"], "w"))
"""


@pytest.fixture
def telling(world: World, observations: Observations) -> Telling:
    telling = Telling()
    telling.hears(world.observations, observations)
    return telling


@pytest.fixture
def traced(app: FastAPI, telling: Telling) -> Iterator[Api]:
    """The API of a controller that keeps traces."""
    app.add_middleware(TraceRequests, tracing=telling.spans.tracing)
    with httpx.Client(transport=Network(app), base_url="http://test") as client:
        yield Api(client)


class Floor:
    """Scripted work for a world's runs."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.folder = world, folder
        self.launcher = ScriptedLauncher()

    def runner(self, telling: Telling) -> Runner:
        return telling.runner(self.world, {"process": self.launcher}, self.folder)

    def due(self) -> Run:
        """A minute later, the run that is due."""
        self.world.advance(minutes=1)
        self.world.resync()
        return self.world.runs()[-1]

    @property
    def told(self) -> str:
        """What the newest attempt was told."""
        return self.launcher.last.launch.environment["TRACEPARENT"]


@pytest.fixture
def floor(world: World, tmp_path: Path) -> Floor:
    return Floor(world, tmp_path / "work")


def nanoseconds(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000


def test_a_deploy_is_one_trace_from_its_request(traced: Api, telling: Telling) -> None:
    """O-04: in the trace of whoever sent it; the revision's change hangs below the request."""
    assert traced.put(T, manifest(), IS_NEW | {"traceparent": BUILD}).status_code == 201
    request, change = telling.one("PUT /api/v1/triggers/{project}/{domain}/{task}/{name}"), telling.one("change")
    assert request.parent is not None
    assert (request.context.trace_id, request.parent.span_id) == (BUILD_TRACE, BUILD_SPAN)
    assert fact(request, "http.response.status_code") == 201
    assert is_child(change, request)
    assert fact(change, "triggerctl.trigger") == "acme/production/report/tick"
    assert (fact(change, "triggerctl.revision"), fact(change, "triggerctl.actor")) == (1, "local")


def test_a_request_that_is_part_of_nothing_begins_a_trace(traced: Api, telling: Telling) -> None:
    """O-04: and so does one whose header says nothing; what only reads is left out."""
    traced.put(T, manifest(), IS_NEW | {"traceparent": "nonsense"})
    traced.get(T)
    assert [span.name for span in telling.all()] == ["change", "PUT /api/v1/triggers/{project}/{domain}/{task}/{name}"]
    assert telling.all()[1].parent is None


def test_what_is_refused_is_seen_too(traced: Api, telling: Telling) -> None:
    """O-04: with its status; only what goes wrong here is an error."""
    assert traced.put(T, manifest(), at(7)).status_code == 412
    [refused] = telling.all()
    assert fact(refused, "http.response.status_code") == 412
    assert refused.status.status_code is StatusCode.UNSET


def test_an_occurrence_is_one_trace_down_to_the_task(
    traced: Api, telling: Telling, world: World, tmp_path: Path
) -> None:
    """O-04: run → attempt → launch, and the task is told the attempt; linked to the pass and to the deploy."""
    task = task_manifest(process={"command": ["python3", "-c", TOLD]})
    assert traced.put("/tasks/acme/production/report/v2", task).status_code == 201
    traced.put(T, manifest(task_version="v2"), IS_NEW)
    change = telling.one("change")
    world.advance(minutes=1)
    world.resync()
    runner = telling.runner(world, launchers(), tmp_path / "work")
    runner.run_pass()
    eventually(lambda: runner.run_pass().live == 0)
    [done] = world.runs()
    run, attempt = telling.one("run"), telling.one("attempt")
    assert f"{run.context.trace_id:032x}" == trace_of(done)
    assert run.parent is None
    assert is_child(telling.one("occurrence"), run)
    assert is_child(attempt, run)
    assert is_child(telling.one("launch"), attempt)
    assert is_child(telling.one("settle"), attempt)
    assert links(telling.one("occurrence")) == {place(telling.one("due pass")), place(change)}
    assert json.loads(done.output or "")["told"] == header(attempt)
    assert done.finished_at is not None
    assert (run.start_time, run.end_time) == (nanoseconds(done.created_at), nanoseconds(done.finished_at))
    assert fact(run, "triggerctl.trigger") == "acme/production/report/tick"
    assert fact(run, "triggerctl.run_id") == done.id
    assert (fact(run, "triggerctl.status"), run.status.status_code) == ("succeeded", StatusCode.UNSET)


def trace_of(run: Run) -> str:
    """The trace of a run that continues none, as docs/observability.md says it: `printf %s RUN | sha256sum`."""
    return hashlib.sha256(run.id.encode()).hexdigest()[:32]


def test_attempts_are_spans_of_one_run(world: World, telling: Telling, floor: Floor) -> None:
    """O-04: with why they failed, and when."""
    world.create(retry={"max_attempts": 2})
    runner, run = floor.runner(telling), floor.due()
    runner.run_pass()
    first = floor.told
    floor.launcher.last.fail("no such customer")
    runner.run_pass()
    world.advance(seconds=5)
    runner.run_pass()
    floor.launcher.last.fail("no such customer")
    runner.run_pass()
    over, attempts = telling.one("run"), telling.named("attempt")
    assert [header(attempt) for attempt in attempts] == [first, floor.told]
    assert [fact(attempt, "triggerctl.attempt") for attempt in attempts] == [1, 2]
    assert all(is_child(attempt, over) for attempt in attempts)
    assert {span.status.description for span in (over, *attempts)} == {"no such customer"}
    assert (fact(over, "triggerctl.attempts"), fact(over, "triggerctl.status")) == (2, "failed")
    assert over.start_time == nanoseconds(run.created_at)


def test_a_restart_in_between_keeps_the_trace(world: World, telling: Telling, floor: Floor) -> None:
    """O-04, invariant 5: another controller ends what one began, and calls it as that one told the task."""
    world.create()
    run = floor.due()
    floor.runner(telling).run_pass()
    world.advance(minutes=2)
    later = Telling()
    later.hears(world.observations)
    runner = floor.runner(later)
    eventually(lambda: runner.run_pass().live == 1)
    floor.launcher.last.succeed()
    runner.run_pass()
    attempt, over = later.one("attempt"), later.one("run")
    assert header(attempt) == floor.told
    assert is_child(attempt, over)
    assert is_child(telling.one("occurrence"), over)
    assert (over.start_time, attempt.start_time) == (nanoseconds(run.created_at),) * 2
    assert over.end_time == nanoseconds(run.created_at) + 120 * 10**9


def test_what_is_handed_back_begins_anew_as_the_same_attempt(world: World, telling: Telling, floor: Floor) -> None:
    """O-04, X-07: no attempt was used, so none is told; that it was handed back is."""
    world.create()
    floor.due()
    leaving = floor.runner(telling)
    leaving.run_pass()
    first = floor.told
    leaving.stop(timedelta(0))
    runner = floor.runner(telling)
    runner.run_pass()
    floor.launcher.last.succeed()
    runner.run_pass()
    assert floor.told == first
    assert header(telling.one("attempt")) == first
    assert is_child(telling.one("hand back"), telling.one("run"))


def test_a_run_begun_again_by_hand_stays_in_its_trace(world: World, telling: Telling, floor: Floor) -> None:
    """O-04, X-11: under a name of its own, for the first one is told already."""
    world.create(retry={"max_attempts": 1})
    runner, run = floor.runner(telling), floor.due()
    runner.run_pass()
    floor.launcher.last.fail()
    runner.run_pass()
    world.retry(run.id, Caller("ann"))
    runner.run_pass()
    floor.launcher.last.succeed()
    runner.run_pass()
    first, second = telling.named("run")
    assert first.context.trace_id == second.context.trace_id
    assert first.context.span_id != second.context.span_id
    assert is_child(telling.named("attempt")[1], second)


def test_what_never_starts_is_a_run_all_the_same(world: World, telling: Telling, floor: Floor, traced: Api) -> None:
    """O-04, X-11, X-18: cancelled while it waits, or expired."""
    world.create("cancelled")
    world.create("expired", start_within="30s")
    world.advance(minutes=1)
    world.resync()
    [waiting] = world.runs("cancelled")
    for _ in range(2):
        assert traced.post(f"/runs/{waiting.id}/cancel").status_code == 200
    world.advance(seconds=31)
    floor.runner(telling).run_pass()
    assert [fact(span, "triggerctl.status") for span in telling.named("run")] == ["cancelled", "expired"]
    assert all(is_child(child, of) for child, of in zip(telling.named("occurrence"), telling.named("run"), strict=True))


def test_a_fire_goes_on_in_the_run(traced: Api, telling: Telling, world: World, floor: Floor) -> None:
    """O-04: one trace from whoever asked, over the request, to the task."""
    world.create(active=False)
    assert traced.post(f"{T}/fire", headers={"traceparent": BUILD}).status_code == 201
    runner = floor.runner(telling)
    runner.run_pass()
    floor.launcher.last.succeed()
    runner.run_pass()
    run = telling.one("run")
    assert run.context.trace_id == BUILD_TRACE
    assert is_child(run, telling.one("POST /api/v1/triggers/{project}/{domain}/{task}/{name}/fire"))
    assert header(telling.one("attempt")) == floor.told


def test_a_callback_is_part_of_the_attempt_it_ends(traced: Api, telling: Telling, world: World, floor: Floor) -> None:
    """O-04, X-10: a service that hands on what it was told."""
    world.create()
    run = floor.due()
    floor.runner(telling).run_pass()
    body = {"attempt": 1, "outcome": "succeeded"}
    assert traced.post(f"/runs/{run.id}/complete", body, {"traceparent": floor.told}).status_code == 200
    attempt = telling.one("attempt")
    assert is_child(telling.one("POST /api/v1/runs/{id}/complete"), attempt)
    assert is_child(attempt, telling.one("run"))


def test_each_run_of_a_backfill_is_a_trace_with_a_link(
    traced: Api, telling: Telling, world: World, floor: Floor
) -> None:
    """O-04: one cause, many effects."""
    world.create(active=False)
    world.advance(minutes=3)
    span = {"from": "2026-03-02T08:00:30Z", "to": "2026-03-02T08:02:30Z"}
    assert traced.post(f"{T}/backfill", span, {"traceparent": BUILD}).status_code == 200
    runner = floor.runner(telling)
    for _ in range(2):  # one waits for the other
        runner.run_pass()
        floor.launcher.last.succeed()
    runner.run_pass()
    asked = telling.one("POST /api/v1/triggers/{project}/{domain}/{task}/{name}/backfill")
    made = telling.named("run")
    assert {f"{run.context.trace_id:032x}" for run in made} == {trace_of(run) for run in world.runs()}
    assert [links(run) for run in made] == [{place(asked)}] * 2


def test_who_keeps_no_traces_hands_on_what_he_was_told(api: Api, world: World, tmp_path: Path) -> None:
    """O-04: as the standard says of whoever stands in the middle; without a request there is nothing to hand on."""
    world.create("asked", active=False)
    world.create("scheduled")
    asked = api.post(T.replace("tick", "asked") + "/fire", headers={"traceparent": BUILD}).json()["id"]
    world.advance(minutes=1)
    world.resync()
    launcher = ScriptedLauncher()
    settings = RunnerSettings(work_dir=tmp_path / "work", task_root=tmp_path)
    Runner(world.database, world.observations, {"process": launcher}, settings=settings).run_pass()
    told = {work.launch.run_id: work.launch.environment.get("TRACEPARENT") for work in launcher.works}
    [scheduled] = world.runs("scheduled")
    assert told == {asked: BUILD, scheduled.id: None}


def test_the_command_line_continues_the_trace_of_its_environment(
    cli: Cli, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O-04: a build's step that fires, or a task that does."""
    world.create(active=False)
    monkeypatch.setenv("TRACEPARENT", BUILD)
    assert cli("fire", "acme/production/report/tick").status == 0
    [run] = world.runs()
    assert run.traceparent == BUILD


def test_a_share_of_the_traces_is_recorded(world: World, floor: Floor) -> None:
    """O-04: all of a run or nothing, whoever asks, and the task is told which; a request's decision goes before."""
    some = Telling(ratio=0.5)
    some.hears(world.observations)
    world.create(overlap="allow", catchup={"policy": "all"})
    runner = floor.runner(some)
    world.advance(minutes=40)
    world.resync()
    for _ in range(3):
        runner.run_pass()
        for work in floor.launcher.works:
            work.succeed()
    runner.run_pass()
    told = [work.launch.environment["TRACEPARENT"] for work in floor.launcher.works]
    recorded = {header(attempt) for attempt in some.named("attempt")}
    assert {one for one in told if one.endswith("3")} == recorded
    assert 0 < len(recorded) < len(told) == 40
    assert len(some.named("run")) == len(some.named("occurrence")) == len(recorded)
    none = Telling(ratio=0)
    assert header_of(none, world, BUILD).endswith("01")
    assert header_of(none, world, None).endswith("02")


def header_of(telling: Telling, world: World, traceparent: str | None) -> str:
    """What a run's attempt would be told."""
    return telling.spans.traceparent(replace(world.runs()[0], traceparent=traceparent))


def test_no_span_says_what_was_sent(traced: Api, telling: Telling) -> None:
    """O-04, X-12: not the query, not headers, not bodies, and of paths only the route and a trigger's name."""
    secret = "hunter2"
    traced.client.put(
        f"/api/v1{T}?origin={secret}",
        json=manifest(input={"password": secret}),
        headers=IS_NEW | {"Authorization": f"Bearer {secret}", "Cookie": secret, "Idempotency-Key": secret},
    )
    traced.client.delete(f"/api/v1/tokens/{secret}")
    traced.client.post(f"/hooks/{secret}")
    assert len(telling.all()) >= 3
    assert secret not in "".join(span.to_json() for span in telling.all())


def test_log_lines_bear_the_trace(
    traced: Api, telling: Telling, world: World, floor: Floor, observations: Observations,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """O-04, O-05: of a run, and of what happens in a request, libraries' lines included."""
    logs.configure("info", "json")
    for one in (world.observations, observations):
        one.subscribe(logs.write_with_trace)
    world.create("own")
    traced.put(T, manifest(active=False), IS_NEW | {"traceparent": BUILD})
    traced.post(f"{T}/fire", headers={"traceparent": BUILD})
    world.advance(minutes=1)
    world.resync()
    floor.runner(telling).run_pass()
    [own] = world.runs("own")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    traces = {(line["event"], line.get("trigger", "").rpartition("/")[2]): line.get("trace_id") for line in lines}
    build = BUILD[3:35]
    assert traces["trigger.changed", "tick"] == traces["run.fired", "tick"] == traces["run.started", "tick"] == build
    assert traces["run.started", "own"] == trace_of(own)
    assert traces["trigger.changed", "own"] is None
    assert "traceparent" not in {name for line in lines for name in line}


def test_completing_elsewhere_needs_no_trace(world: World, tmp_path: Path, floor: Floor, telling: Telling) -> None:
    """O-04: a replica that serves the API alone ends an attempt as the runner's trace calls it."""
    world.create()
    run = floor.due()
    floor.runner(telling).run_pass()
    serving, heard = Telling(), Observations()
    serving.hears(heard)
    ended = Ended(AttemptOutcome.SUCCEEDED, output={})
    complete_run(world.database, heard, run.id, 1, ended, vault=Vault(), work_dir=tmp_path / "elsewhere")
    assert header(serving.one("attempt")) == floor.told

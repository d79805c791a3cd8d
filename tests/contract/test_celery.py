"""What is true of `celery` alone: nothing is sent twice, and what a worker answers is judged."""

import json
import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from reconcile import plugins
from reconcile.launchers.shared import block_faults as blocks
from reconcile.launchers.shared.remote_job import Unreachable
from reconcile.protocols import Failed, Launch, LaunchError, Running, Succeeded, Work, WorkProgress
from tests.blocks import block_faults, block_of
from tests.contract.test_launchers import end
from tests.contract.workers import PASSWORD, Workers
from tests.waiting import eventually

pytestmark = pytest.mark.xdist_group("celery")

OURS, THEIRS = "01M8M5ZV6W5GQ7B7ZJQHN4QK2M", "01M8M60F0S2T2YB3V5C1X9A7RE"
"""Installations."""


class Sender:
    """Starts attempts on one cluster, and forgets them in the end."""

    def __init__(self, folder: Path, workers: Workers) -> None:
        self.folder, self.workers = folder, workers
        self.attempt = folder / "attempt"
        self.values: dict[str, Any] = {"runs": str(folder / "runs"), "go": str(folder / "go")}
        self.started: list[Work] = []

    def start(self, task: str, environment: Mapping[str, str] | None = None, **values: Any) -> Work:
        return self.start_as({"task": task}, environment, **values)

    def start_as(self, spec: Mapping[str, str], environment: Mapping[str, str] | None = None, **values: Any) -> Work:
        run = self.folder.name
        read = block_of("celery", spec)
        launch = Launch(run, 2, self.attempt, self.folder, read, {"input": values}, environment or {}, 600, OURS)
        self.started.append(plugins.launcher("celery").start(launch))
        return self.started[-1]

    def adopt(self) -> Work:
        work = plugins.launcher("celery").adopt(self.attempt)
        assert work is not None
        self.started.append(work)
        return work

    def queued(self) -> list[Any]:
        """Messages that no worker has taken."""
        app = Celery(broker=self.workers.environment["CELERY_BROKER_URL"], set_as_current=False)
        with app.connection_for_read() as connection:
            return [json.loads(one) for one in connection.default_channel.client.lrange("celery", 0, -1)]

    def answer(self, text: bytes) -> None:
        """Puts a result where the attempt's is looked for."""
        app = Celery(backend=self.workers.environment["CELERY_RESULT_BACKEND"], set_as_current=False)
        app.backend.set(app.backend.get_key_for_task(f"triggerctl-{OURS}-{self.folder.name}-2"), text)


@pytest.fixture
def sender(workers: Workers, tmp_path: Path) -> Iterator[Sender]:
    sender = Sender(tmp_path, workers)
    yield sender
    for work in sender.started:
        work.forget()


def failed(progress: WorkProgress) -> str:
    assert isinstance(progress, Failed)
    return progress.error


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1]", "not a JSON object but list"),
        ('"done"', "not a JSON object but str"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": 1e999}', "Infinity is not JSON"),
        ('{"a": "\\u0000"}', "output.a: holds a NUL"),
        ('{"a": "' + "x" * 2**20 + '"}', "larger than 1048576 bytes"),
    ],
    ids=["list", "text", "nan", "infinite", "nul", "large"],
)
def test_what_is_no_output_fails_the_run(sender: Sender, text: str, words: str) -> None:
    """X-10: a task that returns something else than a dict or None says nothing that could be kept."""
    assert words in failed(end(sender.start("say", text=text)))


@pytest.mark.parametrize(
    "text",
    [
        pickle.dumps({"status": "SUCCESS", "result": {}}),
        b"done",
        b"null",
        b'{"status": "SUCCESS"}',
        b'{"status": "FAILURE", "result": "boom"}',
        b'{"status": "FAILURE", "result": {"exc_type": "system", "exc_module": "os", "exc_message": "true"}}',
    ],
    ids=["pickle", "text", "nothing", "no result", "no exception", "no class"],
)
def test_a_result_that_cannot_be_read_fails_the_run(sender: Sender, text: bytes) -> None:
    """X-10, X-12: at once, for the work is over; what is pickled is not unpickled."""
    work = sender.start("wait", **sender.values)
    eventually((sender.folder / "runs").exists)
    sender.answer(text)
    error = failed(end(work))
    assert error.startswith("its result cannot be read: ")
    assert error.endswith("; the worker's result_serializer must be json")
    (sender.folder / "go").touch()


def test_an_exception_that_celery_cannot_hand_on_is_told_in_its_own_words(sender: Sender) -> None:
    """X-10: one whose class wants other arguments than it keeps."""
    assert failed(end(sender.start("fail strangely"))) == "Moon('luna is new')"


def test_a_worker_is_not_told_to_show_the_document(sender: Sender) -> None:
    """X-12: what a worker writes into its log and its events of a message it takes."""
    sender.workers.stop()
    sender.start("nothing", password=PASSWORD)
    eventually((sender.attempt / "submitted").exists)
    [message] = sender.queued()
    assert PASSWORD not in json.dumps(message["headers"])
    sender.workers.begin()


def test_the_log_of_a_failure_is_its_traceback(sender: Sender) -> None:
    """X-17: a worker keeps no log of one task, but how it failed."""
    work = sender.start("fail")
    end(work)
    assert b'raise RuntimeError("could not reach the moon"' in work.log.read(0, work.log.size())


@pytest.mark.parametrize("told", ["00-a-b-01", None])
def test_a_worker_is_told_the_trace(sender: Sender, told: str | None) -> None:
    """O-04: in the header of the message where OpenTelemetry's instrumentation of Celery looks for it."""
    assert end(sender.start("traced", {"TRACEPARENT": told} if told else None)) == Succeeded({"told": told})


def test_work_that_waits_for_a_worker_is_known_from_work_that_is_not_there(sender: Sender) -> None:
    """X-10, invariant 5: a backend says PENDING of both; what was sent is awaited by an adopter, and runs once."""
    sender.workers.stop()
    first = sender.start("wait", **sender.values)
    eventually((sender.attempt / "submitted").exists)
    adopted = sender.adopt()
    assert first.poll() == adopted.poll() == Running(elsewhere=True)
    assert len(sender.queued()) == 1
    sender.workers.begin()
    (sender.folder / "go").touch()
    assert end(adopted) == Succeeded({"waited": True})
    assert (sender.folder / "runs").read_text() == "run\n"


def test_each_installation_has_ids_of_its_own(sender: Sender) -> None:
    """X-10: a copy of the database awaits no answer of the original's, for nothing in a backend says whose one is."""
    sender.workers.stop()
    sender.start("nothing")
    eventually((sender.attempt / "submitted").exists)
    [message] = sender.queued()
    assert message["headers"]["id"] == f"triggerctl-{OURS}-{sender.folder.name}-2"
    sender.workers.begin()


def test_what_was_sent_before_a_kill_is_found_by_its_id(sender: Sender) -> None:
    """Invariant 5: killed before it could note that it had sent, the next controller finds the result all the same."""
    sender.start("wait", **sender.values)
    eventually((sender.folder / "runs").exists)
    eventually((sender.attempt / "submitted").exists)
    (sender.attempt / "submitted").unlink()
    adopted = sender.adopt()
    (sender.folder / "go").touch()
    assert end(adopted) == Succeeded({"waited": True})
    assert (sender.folder / "runs").read_text() == "run\n"


def test_what_may_have_been_sent_is_not_sent_again(sender: Sender) -> None:
    """Invariant 5: killed in the moment of sending, the attempt is awaited until its end is asked for, not sent."""
    sender.attempt.mkdir(mode=0o700)
    facts = {"run_id": "r9", "attempt": 1, "folder": str(sender.attempt), "root": str(sender.folder)}
    facts |= {"spec": {"task": "wait"}, "environment": {}, "timeout_seconds": 600}
    (sender.attempt / "launch.json").write_text(json.dumps(facts))
    (sender.attempt / "input.json").write_text(json.dumps({"input": sender.values}))
    (sender.attempt / "started").touch()
    adopted = sender.adopt()
    assert adopted.poll() == Running(elsewhere=True)
    adopted.cancel()
    assert end(adopted) == Failed("was revoked")
    assert not (sender.folder / "runs").exists()
    assert sender.queued() == []


def test_an_attempt_whose_result_is_there_is_not_sent_again(sender: Sender) -> None:
    """X-10: an id that the backend knows belongs to work that was begun, wherever."""
    assert end(sender.start("wait", runs=str(sender.folder / "runs"), go="/")) == Succeeded({"waited": True})
    sender.started.pop().forget()
    again = sender.start("wait", runs=str(sender.folder / "runs"), go="/")
    assert end(again) == Succeeded({"waited": True})
    assert (sender.folder / "runs").read_text() == "run\n"


def test_a_broker_that_is_away_fails_the_attempt_and_tells_no_password(
    sender: Sender, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X-12, X-07: nothing was sent, so the run's own retries may."""
    monkeypatch.setattr("reconcile.launchers.shared.remote_job.PAUSES", (0.01,))
    monkeypatch.setenv("CELERY_BROKER_URL", f"redis://:{PASSWORD}@127.0.0.1:{port}/0")
    error = failed(end(sender.start("nothing")))
    assert error.startswith("the Celery cluster cannot be reached: ")
    assert PASSWORD not in error


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (None, "the controller's environment has no CELERY_RESULT_BACKEND"),
        ("rpc://", "CELERY_RESULT_BACKEND is rpc, which shows a result to its sender alone"),
    ],
)
def test_a_backend_that_keeps_results_is_needed(
    sender: Sender, monkeypatch: pytest.MonkeyPatch, address: str | None, words: str
) -> None:
    """X-10: without one nobody would know how the work ends."""
    if address is None:
        monkeypatch.delenv("CELERY_RESULT_BACKEND")
    else:
        monkeypatch.setenv("CELERY_RESULT_BACKEND", address)
    assert words in failed(end(sender.start("nothing")))


def test_a_missing_extra_is_told_with_the_way_out(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-10: when the task is registered, and when it is launched."""
    monkeypatch.setattr(blocks, "find_spec", lambda name: None)
    [fault] = block_faults("celery", {"task": "a"})
    assert fault.hint == "pip install 'triggerctl[celery]'"


def test_a_task_goes_to_the_cluster_that_it_names(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-10: whatever the variables say that Celery knows by itself, and that tasks of another cluster use."""
    for name, address in sender.workers.environment.items():
        monkeypatch.setenv(name.replace("CELERY", "OUR"), address)
        monkeypatch.setenv(name, f"redis://:{PASSWORD}@127.0.0.1:9/0")
    work = sender.start_as({"task": "nothing", "broker": "OUR_BROKER_URL", "backend": "OUR_RESULT_BACKEND"})
    assert end(work) == Succeeded({})


def test_a_cluster_that_is_away_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """O-05: by `doctor`, be it the broker or the backend, and without the address, which may hold a password."""
    block = block_of("celery", {"task": "a", "broker": "OUR_BROKER", "backend": "OUR_BACKEND"})
    system = plugins.launcher("celery").system(block)
    assert system is not None
    with pytest.raises(LaunchError, match="has no OUR_BROKER"):
        system.reach()
    for name in ("OUR_BROKER", "OUR_BACKEND"):
        monkeypatch.setenv(name, f"redis://:{PASSWORD}@127.0.0.1:9/0")
    with pytest.raises(Unreachable, match="the Celery cluster cannot be reached") as told:
        system.reach()
    assert PASSWORD not in str(told.value)

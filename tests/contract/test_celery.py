"""Behaviour of the launcher `celery` alone: no task is sent twice, and the worker's results are checked."""

import json
import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from reconcile import plugins
from reconcile.launchers.shared import block_faults
from reconcile.launchers.shared.remote_job import Unreachable
from reconcile.plugins import Failed, Launch, LaunchError, Running, Succeeded, Work, WorkProgress
from tests.blocks import block_of, faults_of
from tests.contract.test_launchers import end
from tests.contract.workers import PASSWORD, Workers
from tests.waiting import eventually

pytestmark = pytest.mark.xdist_group("celery")

OWN_INSTALLATION = "01M8M5ZV6W5GQ7B7ZJQHN4QK2M"


class Sender:
    """Start attempts on one Celery cluster and forget them at the end."""

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
        launch = Launch(
            run, 2, self.attempt, self.folder, read, {"input": values}, environment or {}, 600, OWN_INSTALLATION
        )
        self.started.append(plugins.launcher("celery").start(launch))
        return self.started[-1]

    def adopt(self) -> Work:
        work = plugins.launcher("celery").adopt(self.attempt)
        assert work is not None
        self.started.append(work)
        return work

    def send_unreceived(self, **values: Any) -> Any:
        """Start an attempt in a queue that no worker reads, and return its message."""
        self.start_as({"task": "nothing", "queue": self.folder.name}, **values)
        eventually((self.attempt / "submitted").exists)
        [message] = self.queued(self.folder.name)
        return message

    def queued(self, queue: str = "celery") -> list[Any]:
        """Return messages that no worker has received."""
        app = Celery(broker=self.workers.environment["CELERY_BROKER_URL"], set_as_current=False)
        with app.connection_for_read() as connection:
            return [json.loads(message) for message in connection.default_channel.client.lrange(queue, 0, -1)]

    def store_result(self, text: bytes) -> None:
        """Store a result where the attempt's result is expected."""
        app = Celery(backend=self.workers.environment["CELERY_RESULT_BACKEND"], set_as_current=False)
        app.backend.set(app.backend.get_key_for_task(f"triggerctl-{OWN_INSTALLATION}-{self.folder.name}-2"), text)


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
    ("text", "message"),
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
def test_a_result_that_is_no_output_fails_the_run(sender: Sender, text: str, message: str) -> None:
    """X-10: a task must return a dict or None."""
    assert message in failed(end(sender.start("say", text=text)))


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
    """X-10, X-12: immediately, because the work has ended; pickled results are not unpickled."""
    work = sender.start("wait", **sender.values)
    eventually((sender.folder / "runs").exists)
    sender.store_result(text)
    error = failed(end(work))
    assert error.startswith("its result cannot be read: ")
    assert error.endswith("; the worker's result_serializer must be json")
    (sender.folder / "go").touch()


def test_an_exception_that_celery_cannot_restore_is_still_reported(sender: Sender) -> None:
    """X-10: Celery cannot create an exception whose class needs other arguments than it stores."""
    assert failed(end(sender.start("fail strangely"))) == "Moon('luna is new')"


def test_the_message_headers_do_not_contain_the_document(sender: Sender) -> None:
    """X-12: a worker writes them to its log and its events."""
    message = sender.send_unreceived(password=PASSWORD)
    assert PASSWORD not in json.dumps(message["headers"])


def test_the_log_of_a_failure_is_its_traceback(sender: Sender) -> None:
    """X-17: a worker keeps no separate log of a task."""
    work = sender.start("fail")
    end(work)
    assert b'raise RuntimeError("could not reach the moon"' in work.log.read(0, work.log.size())


@pytest.mark.parametrize("traceparent", ["00-a-b-01", None])
def test_a_worker_gets_the_trace_context(sender: Sender, traceparent: str | None) -> None:
    """O-04: in the message header that OpenTelemetry's Celery instrumentation reads."""
    assert end(sender.start("traced", {"TRACEPARENT": traceparent} if traceparent else None)) == Succeeded(
        {"traceparent": traceparent}
    )


def test_queued_work_is_told_apart_from_missing_work(sender: Sender) -> None:
    """X-10, invariant 5: a backend reports both as PENDING; an adopter waits for what was sent, and it runs once."""
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


def test_task_ids_contain_the_installation(sender: Sender) -> None:
    """X-10: a copy of the database must not receive results of the original; nothing else in a backend tells them
    apart."""
    message = sender.send_unreceived()
    assert message["headers"]["id"] == f"triggerctl-{OWN_INSTALLATION}-{sender.folder.name}-2"


def test_work_sent_before_a_kill_is_found_by_its_id(sender: Sender) -> None:
    """Invariant 5: the next controller finds the result of a controller that was killed before it noted the sending."""
    sender.start("wait", **sender.values)
    eventually((sender.folder / "runs").exists)
    eventually((sender.attempt / "submitted").exists)
    (sender.attempt / "submitted").unlink()
    adopted = sender.adopt()
    (sender.folder / "go").touch()
    assert end(adopted) == Succeeded({"waited": True})
    assert (sender.folder / "runs").read_text() == "run\n"


def test_work_that_may_have_been_sent_is_not_sent_again(sender: Sender) -> None:
    """Invariant 5: an attempt whose controller was killed while sending is awaited until it is cancelled."""
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


def test_an_attempt_with_a_result_is_not_sent_again(sender: Sender) -> None:
    """X-10: an id that the backend knows belongs to work that has started."""
    assert end(sender.start("wait", runs=str(sender.folder / "runs"), go="/")) == Succeeded({"waited": True})
    sender.started.pop().forget()
    again = sender.start("wait", runs=str(sender.folder / "runs"), go="/")
    assert end(again) == Succeeded({"waited": True})
    assert (sender.folder / "runs").read_text() == "run\n"


def test_an_unreachable_broker_fails_the_attempt_without_revealing_the_password(
    sender: Sender, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X-12, X-07: nothing was sent, so the run's own retries follow."""
    monkeypatch.setattr("reconcile.launchers.shared.remote_job.PAUSES", (0.01,))
    monkeypatch.setenv("CELERY_BROKER_URL", f"redis://:{PASSWORD}@127.0.0.1:{port}/0")
    error = failed(end(sender.start("nothing")))
    assert error.startswith("the Celery cluster cannot be reached: ")
    assert PASSWORD not in error


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (None, "the controller's environment has no CELERY_RESULT_BACKEND"),
        ("rpc://", "CELERY_RESULT_BACKEND is rpc, which shows a result to its sender alone"),
    ],
)
def test_a_backend_that_stores_results_is_required(
    sender: Sender, monkeypatch: pytest.MonkeyPatch, address: str | None, message: str
) -> None:
    """X-10: without one the end of the work would never be known."""
    if address is None:
        monkeypatch.delenv("CELERY_RESULT_BACKEND")
    else:
        monkeypatch.setenv("CELERY_RESULT_BACKEND", address)
    assert message in failed(end(sender.start("nothing")))


def test_a_missing_extra_is_reported_with_the_command_to_install_it(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X-10: when a task is registered and when it is launched."""
    monkeypatch.setattr(block_faults, "find_spec", lambda name: None)
    [fault] = faults_of("celery", {"task": "a"})
    assert fault.hint == "pip install 'triggerctl[celery]'"


def test_a_task_is_sent_to_the_cluster_that_it_names(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-10: not to the one in Celery's own environment variables."""
    for name, address in sender.workers.environment.items():
        monkeypatch.setenv(name.replace("CELERY", "OUR"), address)
        monkeypatch.setenv(name, f"redis://:{PASSWORD}@127.0.0.1:9/0")
    work = sender.start_as({"task": "nothing", "broker": "OUR_BROKER_URL", "backend": "OUR_RESULT_BACKEND"})
    assert end(work) == Succeeded({})


def test_doctor_reports_an_unreachable_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """O-05: broker or backend, and without the address, which may contain a password."""
    block = block_of("celery", {"task": "a", "broker": "OUR_BROKER", "backend": "OUR_BACKEND"})
    system = plugins.launcher("celery").system(block)
    assert system is not None
    with pytest.raises(LaunchError, match="has no OUR_BROKER"):
        system.reach()
    for name in ("OUR_BROKER", "OUR_BACKEND"):
        monkeypatch.setenv(name, f"redis://:{PASSWORD}@127.0.0.1:9/0")
    with pytest.raises(Unreachable, match="the Celery cluster cannot be reached") as raised:
        system.reach()
    assert PASSWORD not in str(raised.value)

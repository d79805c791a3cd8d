"""Remote jobs: silent systems, a controller without files or threads, polling after reports, ruled-out starts."""

import errno
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconcile.launchers.shared import attempt_folder, remote_job
from reconcile.plugins import Failed, Launch, Lost, Running, Succeeded, WorkProgress
from tests.waiting import eventually


class ScriptedClient:
    """Client whose progress comes from `answer`, which is given the number of earlier polls."""

    is_repeatable = True

    def __init__(self, answer: Callable[[int], WorkProgress]) -> None:
        self._answer = answer
        self.polls = 0
        self.wake: Callable[[], None]

    def prepare(self) -> None: ...

    def submit(self) -> None: ...

    def subscribe(self, wake: Callable[[], None]) -> bool:
        self.wake = wake
        return False

    def read_progress(self) -> WorkProgress:
        self.polls += 1
        return self._answer(self.polls - 1)

    def cancel(self, *, force: bool) -> None: ...

    def clean_up(self) -> None: ...


class JobStarter:
    """Starts jobs in folders 0, 1, …; at the end of the test silent systems answer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.may_answer = threading.Event()
        self.started: list[remote_job.RemoteJob] = []

    def start(self, client: ScriptedClient) -> remote_job.RemoteJob:
        folder = self.folder / str(len(self.started))
        launch = Launch("r1", 1, folder, folder, {}, {}, {})
        self.started.append(remote_job.start(launch, lambda launch: client, dict))
        return self.started[-1]

    def silence(self, polls: int) -> WorkProgress:
        """Wait until the end of the test: a system that accepts calls and does not answer them."""
        self.may_answer.wait()
        return Succeeded()


@pytest.fixture
def starter(tmp_path: Path) -> Iterator[JobStarter]:
    starter = JobStarter(tmp_path)
    yield starter
    starter.may_answer.set()
    for work in starter.started:
        work.forget()


def test_a_forced_end_needs_no_answer(starter: JobStarter, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-05, X-10: a system that never answers does not prevent a timeout or cancellation."""
    client = ScriptedClient(starter.silence)
    work = starter.start(client)
    eventually(lambda: client.polls)
    work.cancel(force=True)
    assert work.poll() == Running(elsewhere=True)
    monkeypatch.setattr(remote_job, "SECONDS_TO_CONFIRM", 0.0)
    assert work.poll() == Failed("was given up: it was not seen to end")


@pytest.mark.parametrize(
    "error", [OSError(errno.EMFILE, "Too many open files"), RuntimeError("can't start new thread")]
)
def test_a_controller_without_files_or_threads_keeps_the_work(starter: JobStarter, error: Exception) -> None:
    """X-10, invariant 10: it polls again later, because its own shortage says nothing about the work."""

    def answer(polls: int) -> WorkProgress:
        if polls == 0:
            raise error
        return Succeeded({"well": True})

    work = starter.start(ScriptedClient(answer))
    eventually(lambda: not isinstance(work.poll(), Running))
    assert work.poll() == Succeeded({"well": True})


def test_reports_do_not_shorten_the_poll_interval(starter: JobStarter, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-10: a watch that breaks off again and again does not cause more calls than one poll per report."""
    monkeypatch.setattr(remote_job, "FIRST_POLL", 0.001)
    monkeypatch.setattr(remote_job, "LAST_POLL", 600.0)

    def answer(polls: int) -> WorkProgress:
        if polls < 40:
            woken.wake()
        return Running()

    woken, other = ScriptedClient(answer), ScriptedClient(lambda polls: Running())
    starter.start(woken)
    eventually(lambda: woken.polls > 40)
    starter.start(other)
    eventually(lambda: other.polls > 8)
    assert woken.polls == 41


def test_a_start_that_was_ruled_out_is_not_adopted(starter: JobStarter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Invariant 5: `adopt` returns None, before and after the attempt itself has noticed."""
    client, may_prepare = ScriptedClient(starter.silence), threading.Event()
    monkeypatch.setattr(client, "prepare", may_prepare.wait)
    work = starter.start(client)
    assert remote_job.adopt(starter.folder / "0", lambda launch: client, dict) is None
    may_prepare.set()
    assert eventually(lambda: isinstance(end := work.poll(), Lost) and end) == Lost(attempt_folder.GIVEN_UP)
    eventually((starter.folder / "0" / "end").exists)
    assert remote_job.adopt(starter.folder / "0", lambda launch: client, dict) is None

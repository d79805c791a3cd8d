"""What an errand makes of a system that is silent, of a machine that lacks something, and of being woken."""

import errno
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconcile.launchers.shared import attempt_folder, remote_job
from reconcile.protocols import Failed, Launch, Lost, Running, Succeeded, WorkProgress
from tests.waiting import eventually


class Remote:
    """Work elsewhere: `answer` says what each look finds, given how many there were before."""

    repeatable = True

    def __init__(self, answer: Callable[[int], WorkProgress]) -> None:
        self._answer = answer
        self.looks = 0
        self.wake: Callable[[], None]

    def reach(self) -> None: ...

    def submit(self) -> None: ...

    def told(self, wake: Callable[[], None]) -> bool:
        self.wake = wake
        return False

    def look(self) -> WorkProgress:
        self.looks += 1
        return self._answer(self.looks - 1)

    def cancel(self, *, force: bool) -> None: ...

    def clean(self) -> None: ...


class Office:
    """Starts errands, and lets the last ones end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.closes = threading.Event()
        self.started: list[remote_job.Errand] = []

    def start(self, remote: Remote) -> remote_job.Errand:
        folder = self.folder / str(len(self.started))
        self.started.append(remote_job.start(Launch("r1", 1, folder, folder, {}, {}, {}), lambda launch: remote, dict))
        return self.started[-1]

    def silence(self, looks: int) -> WorkProgress:
        """A connection over which nothing comes."""
        self.closes.wait()
        return Succeeded()


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    office = Office(tmp_path)
    yield office
    office.closes.set()
    for work in office.started:
        work.forget()


def test_a_forced_end_needs_no_answer(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-05, X-10: a system that takes calls and never answers them keeps no run from being timed out or cancelled."""
    remote = Remote(office.silence)
    work = office.start(remote)
    eventually(lambda: remote.looks)
    work.cancel(force=True)
    assert work.poll() == Running(elsewhere=True)
    monkeypatch.setattr(remote_job, "SECONDS_TO_CONFIRM", 0.0)
    assert work.poll() == Failed("was given up: it was not seen to end")


@pytest.mark.parametrize("lack", [OSError(errno.EMFILE, "Too many open files"), RuntimeError("can't start new thread")])
def test_what_the_machine_lacks_ends_no_work(office: Office, lack: Exception) -> None:
    """X-10: files and threads come back, and the work elsewhere knows nothing of them."""

    def answer(looks: int) -> WorkProgress:
        if looks == 0:
            raise lack
        return Succeeded({"well": True})

    work = office.start(Remote(answer))
    eventually(lambda: not isinstance(work.poll(), Running))
    assert work.poll() == Succeeded({"well": True})


def test_who_is_woken_often_does_not_look_more_often_by_itself(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-10: a watch that breaks off again and again is not made up for by calls."""
    monkeypatch.setattr(remote_job, "FIRST_LOOK", 0.001)
    monkeypatch.setattr(remote_job, "LAST_LOOK", 600.0)

    def answer(looks: int) -> WorkProgress:
        if looks < 40:
            woken.wake()
        return Running()

    woken, other = Remote(answer), Remote(lambda looks: Running())
    office.start(woken)
    eventually(lambda: woken.looks > 40)
    office.start(other)
    eventually(lambda: other.looks > 8)
    assert woken.looks == 41


def test_an_attempt_that_was_given_up_is_none(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """Invariant 5: who looked for it before it began may begin anew, also once it has noticed that itself."""
    remote, may_reach = Remote(office.silence), threading.Event()
    monkeypatch.setattr(remote, "reach", may_reach.wait)
    work = office.start(remote)
    assert remote_job.adopt(office.folder / "0", lambda launch: remote, dict) is None
    may_reach.set()
    assert eventually(lambda: isinstance(end := work.poll(), Lost) and end) == Lost(attempt_folder.GIVEN_UP)
    eventually((office.folder / "0" / "end").exists)
    assert remote_job.adopt(office.folder / "0", lambda launch: remote, dict) is None

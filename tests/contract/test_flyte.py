"""What is true of `flyte` alone: what it asks for, and what a control plane can say."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from connectrpc.code import Code
from connectrpc.errors import ConnectError

from reconcile import plugins
from reconcile.launchers.shared import block_faults as blocks
from reconcile.protocols import Failed, Launch, LaunchError, Lost, Running, Succeeded, Work, WorkProgress
from tests.blocks import block_faults, block_of
from tests.contract.flyte import TOKEN, Flyte, block
from tests.contract.tasks import TASKS
from tests.contract.test_launchers import end
from tests.waiting import eventually

OURS, THEIRS = "01M8M5ZV6W5GQ7B7ZJQHN4QK2M", "01M8M60F0S2T2YB3V5C1X9A7RE"
"""Installations."""
RUN = "01M8M6BTAN8HXD64DS3X5DECZD"
NAME = "r01m8m6btan8hxd64ds3x5deczd2"


class Caller:
    """Starts attempts on one control plane, and forgets them in the end."""

    def __init__(self, folder: Path, flyte: Flyte) -> None:
        self.folder, self.flyte = folder, flyte
        self.values: dict[str, Any] = {"runs": str(folder / "runs"), "go": str(folder / "go")}
        self.started: list[Work] = []

    def start(self, task: str, attempt: int = 2, folder: str = "attempt", **values: Any) -> Work:
        spec = block_of("flyte", block(self.flyte.url, task, token="FLYTE_TOKEN"))
        environment = {"TRIGGERCTL_RUN_ID": RUN}
        launch = Launch(
            RUN, attempt, self.folder / folder, self.folder, spec, {"input": values}, environment, 600, OURS
        )
        self.started.append(plugins.launcher("flyte").start(launch))
        return self.started[-1]

    def waiting(self) -> Work:
        """Work that runs until `go` is there."""
        work = self.start("wait", **self.values)
        eventually((self.folder / "runs").exists)
        return work


@pytest.fixture
def caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Caller]:
    monkeypatch.setenv("FLYTE_TOKEN", TOKEN)
    with Flyte(TASKS, TOKEN) as flyte:
        caller = Caller(tmp_path, flyte)
        yield caller
        for work in caller.started:
            work.forget()


def failed(progress: WorkProgress) -> str:
    assert isinstance(progress, Failed)
    return progress.error


def test_a_run_is_named_by_run_and_attempt(caller: Caller) -> None:
    """X-10, X-03: the document is the one input, the environment of the contract goes with it."""
    assert end(caller.start("nothing", text="Zürich")) == Succeeded({})
    [run] = caller.flyte.runs.values()
    request = run.request
    assert request.run_id.name == NAME
    assert (request.task_id.name, request.task_id.version) == ("nothing", "v1")
    [literal] = request.inputs.literals
    assert literal.name == "document"
    assert json.loads(literal.value.scalar.primitive.string_value) == {"input": {"text": "Zürich"}}
    assert [(one.key, one.value) for one in request.run_spec.envs.values] == [("TRIGGERCTL_RUN_ID", RUN)]
    assert dict(request.run_spec.labels.values) == {
        "triggerctl-run": RUN.lower(),
        "triggerctl-attempt": "2",
        "triggerctl-installation": OURS.lower(),
    }


def test_a_run_that_is_there_already_is_the_attempts_own(caller: Caller) -> None:
    """Invariant 5: a name is taken once, so who begins anew finds what was begun."""
    caller.waiting()
    again = caller.start("wait", folder="after a lost disk", **caller.values)
    (caller.folder / "go").touch()
    assert end(again) == Succeeded({"waited": True})
    assert (caller.folder / "runs").read_text() == "run\n"


@pytest.mark.parametrize("is_submitted", [False, True])
def test_a_run_of_another_installation_is_neither_adopted_nor_aborted(caller: Caller, is_submitted: bool) -> None:
    """X-10: a copy of the database meets the original's run under the name that both have."""
    work = caller.waiting()
    labels = caller.flyte.runs[NAME].request.run_spec.labels.values
    labels["triggerctl-installation"] = THEIRS.lower()
    if not is_submitted:
        work = caller.start("wait", folder="of a copy", **caller.values)
    else:
        work.cancel(force=True)
    assert failed(end(work)).startswith(f"the run {NAME} in Flyte is of another installation, {THEIRS}, and this one")
    assert "AbortRun" not in caller.flyte.calls


def test_a_run_of_a_release_that_did_not_say_whose_it_was_is_adopted(caller: Caller) -> None:
    """R-19, X-10: in the middle of a rolling upgrade."""
    caller.waiting()
    del caller.flyte.runs[NAME].request.run_spec.labels.values["triggerctl-installation"]
    again = caller.start("wait", folder="after an upgrade", **caller.values)
    (caller.folder / "go").touch()
    assert end(again) == Succeeded({"waited": True})


def test_the_log_is_kept_at_the_end(caller: Caller) -> None:
    """X-17: as Flyte's own service of logs tells it."""
    work = caller.start("fail")
    assert failed(end(work)) == "could not reach the moon"
    assert work.log.read(0, 99) == b"could not reach the moon\n"


def test_a_control_plane_that_is_away_does_not_fail_its_work(caller: Caller) -> None:
    """X-10: what runs there is waited for until its timeout."""
    work = caller.waiting()
    caller.flyte.refuse = [ConnectError(Code.UNAVAILABLE, "upgrading"), ConnectError(Code.UNAUTHENTICATED, "expired")]
    eventually(lambda: not caller.flyte.refuse)
    assert work.poll() == Running(elsewhere=True)
    (caller.folder / "go").touch()
    assert end(work) == Succeeded({"waited": True})


def test_a_control_plane_that_hiccups_is_asked_again(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """Invariant 5: an answer that got lost cannot make a second run, for the name is the same."""
    monkeypatch.setattr("reconcile.launchers.shared.remote_job.PAUSES", (0.01, 0.01))
    caller.flyte.refuse = [ConnectError(Code.UNAVAILABLE, "upgrading")]
    assert end(caller.start("nothing")) == Succeeded({})
    assert caller.flyte.calls[:2] == ["CreateRun", "CreateRun"]


def test_a_control_plane_that_stays_away_fails_the_attempt(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-07: the run's own retries follow."""
    monkeypatch.setattr("reconcile.launchers.shared.remote_job.PAUSES", (0.01,))
    caller.flyte.refuse = [ConnectError(Code.UNAVAILABLE, "upgrading")] * 2
    assert failed(end(caller.start("nothing"))) == "Flyte answered CreateRun with unavailable: upgrading"


def test_a_refusal_is_told_at_once(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-10: a wrong token, a task that is not there."""
    monkeypatch.setenv("FLYTE_TOKEN", "wrong")
    assert failed(end(caller.start("nothing"))) == "Flyte answered CreateRun with unauthenticated: who are you?"
    assert caller.flyte.calls == ["CreateRun"]


def test_a_token_that_is_not_there_is_told(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-12: the manifest names the variable alone."""
    monkeypatch.delenv("FLYTE_TOKEN")
    assert failed(end(caller.start("nothing"))) == "the controller's environment has no FLYTE_TOKEN"


def test_a_run_that_somebody_aborts_has_failed(caller: Caller) -> None:
    """X-10: with the reason that was given in Flyte."""
    work = caller.waiting()
    run = caller.flyte.runs[NAME]
    run.reason = "too dear"
    run.stop()
    assert end(work) == Failed("was aborted: too dear")


def test_a_run_that_is_gone_is_lost(caller: Caller) -> None:
    """X-10: nobody asked for it, so another attempt follows."""
    work = caller.waiting()
    caller.flyte.runs.pop(NAME).remove()
    assert end(work) == Lost("its run is not there")


def test_a_run_that_cannot_be_aborted_any_more_tells_its_end(caller: Caller) -> None:
    """X-10: it ended in the same moment."""
    work = caller.waiting()
    caller.flyte.refuse_always["AbortRun"] = ConnectError(Code.FAILED_PRECONDITION, "it has ended")
    work.cancel()
    eventually(lambda: "AbortRun" in caller.flyte.calls)
    (caller.folder / "go").touch()
    assert end(work) == Succeeded({"waited": True})


def test_a_name_has_room_for_three_digits(caller: Caller) -> None:
    """X-10: Flyte's names are at most 30 characters long."""
    assert end(caller.start("nothing", 999)) == Succeeded({})
    assert "no room for more than three digits" in failed(end(caller.start("nothing", 1000, "another")))


def test_a_missing_extra_is_told_with_the_way_out(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-10: when the task is registered, and when it is launched."""
    monkeypatch.setattr(blocks, "find_spec", lambda name: None)
    [fault] = block_faults("flyte", block("http://a", "b"))
    assert fault.hint == "pip install 'triggerctl[flyte]'"


def test_a_control_plane_that_lets_nobody_in_is_told_of(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """O-05: by `doctor`, in Flyte's words."""
    system = plugins.launcher("flyte").system(block_of("flyte", block(caller.flyte.url, "a", token="FLYTE_TOKEN")))
    assert system is not None
    system.reach()
    assert caller.flyte.calls == ["GetRunDetails"]
    monkeypatch.setenv("FLYTE_TOKEN", "wrong")
    with pytest.raises(LaunchError, match="Flyte answered GetRunDetails with unauthenticated: who are you"):
        system.reach()
    monkeypatch.delenv("FLYTE_TOKEN")
    with pytest.raises(LaunchError, match="has no FLYTE_TOKEN"):
        system.reach()

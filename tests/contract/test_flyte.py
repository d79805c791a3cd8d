"""Behaviour of the launcher `flyte` alone: its requests and the control plane's answers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from connectrpc.code import Code
from connectrpc.errors import ConnectError

from reconcile import plugins
from reconcile.launchers.shared import block_faults
from reconcile.plugins import Failed, Launch, LaunchError, Lost, Running, Succeeded, Work, WorkProgress
from tests.blocks import block_of, faults_of
from tests.contract.flyte import TOKEN, Flyte, block
from tests.contract.tasks import TASKS
from tests.contract.test_launchers import end
from tests.waiting import eventually

OURS, THEIRS = "01M8M5ZV6W5GQ7B7ZJQHN4QK2M", "01M8M60F0S2T2YB3V5C1X9A7RE"
"""Two installations."""
RUN = "01M8M6BTAN8HXD64DS3X5DECZD"
NAME = "r01m8m6btan8hxd64ds3x5deczd2"


class Starter:
    """Start attempts on one control plane and forget them at the end."""

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

    def start_waiting(self) -> Work:
        """Start work that runs until the file `go` exists."""
        work = self.start("wait", **self.values)
        eventually((self.folder / "runs").exists)
        return work


@pytest.fixture
def starter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Starter]:
    monkeypatch.setenv("FLYTE_TOKEN", TOKEN)
    with Flyte(TASKS, TOKEN) as flyte:
        starter = Starter(tmp_path, flyte)
        yield starter
        for work in starter.started:
            work.forget()


def failed(progress: WorkProgress) -> str:
    assert isinstance(progress, Failed)
    return progress.error


def test_a_run_is_named_by_run_and_attempt(starter: Starter) -> None:
    """X-10, X-03: the document is its only input, and the contract's environment is passed on."""
    assert end(starter.start("nothing", text="Zürich")) == Succeeded({})
    [run] = starter.flyte.runs.values()
    request = run.request
    assert request.run_id.name == NAME
    assert (request.task_id.name, request.task_id.version) == ("nothing", "v1")
    [literal] = request.inputs.literals
    assert literal.name == "document"
    assert json.loads(literal.value.scalar.primitive.string_value) == {"input": {"text": "Zürich"}}
    assert [(variable.key, variable.value) for variable in request.run_spec.envs.values] == [("TRIGGERCTL_RUN_ID", RUN)]
    assert dict(request.run_spec.labels.values) == {
        "triggerctl-run": RUN.lower(),
        "triggerctl-attempt": "2",
        "triggerctl-installation": OURS.lower(),
    }


def test_an_existing_run_of_the_name_is_adopted(starter: Starter) -> None:
    """Invariant 5: the name exists once, so an attempt that starts again finds its run."""
    starter.start_waiting()
    again = starter.start("wait", folder="after a lost disk", **starter.values)
    (starter.folder / "go").touch()
    assert end(again) == Succeeded({"waited": True})
    assert (starter.folder / "runs").read_text() == "run\n"


@pytest.mark.parametrize("is_submitted", [False, True])
def test_a_run_of_another_installation_is_neither_adopted_nor_aborted(starter: Starter, is_submitted: bool) -> None:
    """X-10: a copy of the database uses the same names as the original."""
    work = starter.start_waiting()
    labels = starter.flyte.runs[NAME].request.run_spec.labels.values
    labels["triggerctl-installation"] = THEIRS.lower()
    if not is_submitted:
        work = starter.start("wait", folder="of a copy", **starter.values)
    else:
        work.cancel(force=True)
    assert failed(end(work)).startswith(f"the run {NAME} in Flyte is of another installation, {THEIRS}, and this one")
    assert "AbortRun" not in starter.flyte.calls


def test_a_run_without_an_installation_label_is_adopted(starter: Starter) -> None:
    """R-19, X-10: earlier releases set none, and a rolling upgrade meets their runs."""
    starter.start_waiting()
    del starter.flyte.runs[NAME].request.run_spec.labels.values["triggerctl-installation"]
    again = starter.start("wait", folder="after an upgrade", **starter.values)
    (starter.folder / "go").touch()
    assert end(again) == Succeeded({"waited": True})


def test_the_log_is_kept_at_the_end(starter: Starter) -> None:
    """X-17: it is read from Flyte's log service."""
    work = starter.start("fail")
    assert failed(end(work)) == "could not reach the moon"
    assert work.log.read(0, 99) == b"could not reach the moon\n"


def test_an_unreachable_control_plane_does_not_fail_running_work(starter: Starter) -> None:
    """X-10: the work is awaited until its timeout."""
    work = starter.start_waiting()
    starter.flyte.refuse = [ConnectError(Code.UNAVAILABLE, "upgrading"), ConnectError(Code.UNAUTHENTICATED, "expired")]
    eventually(lambda: not starter.flyte.refuse)
    assert work.poll() == Running(elsewhere=True)
    (starter.folder / "go").touch()
    assert end(work) == Succeeded({"waited": True})


def test_a_failed_request_is_repeated(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Invariant 5: a lost answer cannot cause a second run, because the name is the same."""
    monkeypatch.setattr("reconcile.launchers.shared.remote_job.PAUSES", (0.01, 0.01))
    starter.flyte.refuse = [ConnectError(Code.UNAVAILABLE, "upgrading")]
    assert end(starter.start("nothing")) == Succeeded({})
    assert starter.flyte.calls[:2] == ["CreateRun", "CreateRun"]


def test_a_start_that_keeps_failing_fails_the_attempt(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-07: the run's own retries follow."""
    monkeypatch.setattr("reconcile.launchers.shared.remote_job.PAUSES", (0.01,))
    starter.flyte.refuse = [ConnectError(Code.UNAVAILABLE, "upgrading")] * 2
    assert failed(end(starter.start("nothing"))) == "Flyte answered CreateRun with unavailable: upgrading"


def test_a_refused_start_fails_immediately(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-10: for example with a wrong token."""
    monkeypatch.setenv("FLYTE_TOKEN", "wrong")
    assert failed(end(starter.start("nothing"))) == "Flyte answered CreateRun with unauthenticated: who are you?"
    assert starter.flyte.calls == ["CreateRun"]


def test_a_missing_token_is_reported(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-12: the manifest names only the variable."""
    monkeypatch.delenv("FLYTE_TOKEN")
    assert failed(end(starter.start("nothing"))) == "the controller's environment has no FLYTE_TOKEN"


def test_a_run_aborted_in_flyte_fails_with_its_reason(starter: Starter) -> None:
    """X-10: the reason given in Flyte is kept."""
    work = starter.start_waiting()
    run = starter.flyte.runs[NAME]
    run.reason = "too dear"
    run.stop()
    assert end(work) == Failed("was aborted: too dear")


def test_a_run_that_disappears_is_lost(starter: Starter) -> None:
    """X-10: nobody asked for it, so another attempt follows."""
    work = starter.start_waiting()
    starter.flyte.runs.pop(NAME).remove()
    assert end(work) == Lost("its run is not there")


def test_a_run_that_ended_before_its_abort_keeps_its_result(starter: Starter) -> None:
    """X-10: Flyte refuses to abort it."""
    work = starter.start_waiting()
    starter.flyte.refuse_always["AbortRun"] = ConnectError(Code.FAILED_PRECONDITION, "it has ended")
    work.cancel()
    eventually(lambda: "AbortRun" in starter.flyte.calls)
    (starter.folder / "go").touch()
    assert end(work) == Succeeded({"waited": True})


def test_an_attempt_number_has_at_most_three_digits(starter: Starter) -> None:
    """X-10: Flyte's names have at most 30 characters."""
    assert end(starter.start("nothing", 999)) == Succeeded({})
    assert "no room for more than three digits" in failed(end(starter.start("nothing", 1000, "another")))


def test_a_missing_extra_is_reported_with_the_command_to_install_it(
    starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X-10: when the task is registered and when it is launched."""
    monkeypatch.setattr(block_faults, "find_spec", lambda name: None)
    [fault] = faults_of("flyte", block("http://a", "b"))
    assert fault.hint == "pip install 'triggerctl[flyte]'"


def test_doctor_reports_a_refused_token(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """O-05: in Flyte's words."""
    system = plugins.launcher("flyte").system(block_of("flyte", block(starter.flyte.url, "a", token="FLYTE_TOKEN")))
    assert system is not None
    system.reach()
    assert starter.flyte.calls == ["GetRunDetails"]
    monkeypatch.setenv("FLYTE_TOKEN", "wrong")
    with pytest.raises(LaunchError, match="Flyte answered GetRunDetails with unauthenticated: who are you"):
        system.reach()
    monkeypatch.delenv("FLYTE_TOKEN")
    with pytest.raises(LaunchError, match="has no FLYTE_TOKEN"):
        system.reach()

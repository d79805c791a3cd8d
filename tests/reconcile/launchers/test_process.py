"""The `process` launcher: finding commands, `cwd`, `env`."""

import os
from pathlib import Path
from typing import Any

import pytest

from reconcile.launchers.process import launcher
from reconcile.plugins import Launch, LaunchError, Running, Succeeded, WorkProgress
from revisions.errors import Fault
from tests.blocks import faults_of
from tests.waiting import eventually


def run(root: Path, **block: Any) -> tuple[WorkProgress, str]:
    """Run a task to its end and return the outcome and the log."""
    work = launcher.start(Launch("r1", 1, root / "attempt", root, launcher.read(block), {"input": {}}, {}))
    eventually(lambda: not isinstance(work.poll(), Running))
    try:
        return work.poll(), work.log.read(0, 10_000).decode()
    finally:
        work.forget()


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ({"command": ["no-such-command"]}, r"command not found: 'no-such-command' \(looked in PATH: .+\)"),
        ({"command": ["exit"]}, r"command not found: 'exit'"),
        ({"command": ["ls"], "env": {"PATH": "/nowhere"}}, r"'ls' \(looked in PATH: /nowhere\)"),
        ({"command": ["./missing"], "cwd": "."}, r"command not found: './missing' \(looked in /.+\)"),
        ({"command": ["/missing"]}, r"command not found: '/missing'$"),
        ({"command": ["./plain"], "cwd": "."}, r"command is not executable: './plain'"),
        ({"command": ["./folder"], "cwd": "."}, r"command is not executable: './folder'"),
        ({"command": ["ls"], "cwd": "missing"}, r"no such folder: /.+/missing \(cwd\)"),
    ],
)
def test_a_command_that_cannot_start_is_a_launch_error_and_leaves_no_folder(
    tmp_path: Path, block: Any, words: str
) -> None:
    """X-10: a clear error instead of exit code 127."""
    (tmp_path / "plain").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(LaunchError, match=words):
        run(tmp_path, **block)
    assert not (tmp_path / "attempt").exists()


def test_a_program_wins_over_a_shell_builtin_of_the_same_name(tmp_path: Path) -> None:
    """X-10: a command never runs a built-in of the shell."""
    (tmp_path / "kill").write_text("#!/bin/sh\necho program\n")
    (tmp_path / "kill").chmod(0o755)
    _, log = run(tmp_path, command=["kill", "-9", "0"], env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert log == "program\n"


def test_arguments_are_passed_unchanged(tmp_path: Path) -> None:
    """X-10: nothing is quoted, split or expanded."""
    arguments = ["a  b", "", "$HOME", "*", "'", '"', "\\", "\n", "--", "-e", "ü", ";exit"]
    _, log = run(tmp_path, command=["printf", "[%s]", *arguments])
    assert log == "".join(f"[{argument}]" for argument in arguments)


def test_env_is_added_and_cwd_is_below_the_root(tmp_path: Path) -> None:
    """X-10: the block's own variables and folder are used."""
    (tmp_path / "below").mkdir()
    _, log = run(tmp_path, command=["sh", "-c", 'echo "$LEVEL"; pwd -P'], env={"LEVEL": "in fo"}, cwd="below")
    assert log.splitlines() == ["in fo", str((tmp_path / "below").resolve())]


def test_without_cwd_a_command_runs_in_a_new_folder(tmp_path: Path) -> None:
    """X-10: the folder is private to the attempt and empty."""
    _, log = run(tmp_path, command=["sh", "-c", "pwd -P; ls -A"])
    assert log == f"{(tmp_path / 'attempt' / 'work').resolve()}\n"


def test_the_document_is_standard_input_and_a_file(tmp_path: Path) -> None:
    """X-10: standard input for `process`, the file named by TRIGGERCTL_INPUT for all."""
    progress, log = run(tmp_path, command=["sh", "-c", 'cat; cat "$TRIGGERCTL_INPUT"'])
    assert (progress, log) == (Succeeded({}), '{"input": {}}' * 2)


def test_a_fault_names_the_nearest_field() -> None:
    """R-18: the hint for an unknown field names the nearest known one."""
    faults = faults_of("process", {"comand": ["ls"]})
    assert Fault("comand", "is not a known field", "did you mean command?") in faults

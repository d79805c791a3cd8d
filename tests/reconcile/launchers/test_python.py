"""What only the `python` launcher does: importing, and an exception as the answer."""

from pathlib import Path
from typing import Any

import pytest

from reconcile.launchers.python import launcher
from reconcile.protocols import Failed, Launch, LaunchError, Running, Succeeded, WorkProgress
from tests.waiting import eventually

TASKS = """
import sys

class Deep:
    @staticmethod
    def inside(document):
        return {"argv": sys.argv, "rest": sys.stdin.read()}

def boom(document):
    print("before")
    raise ValueError("the moon is too far")

def a_list(document):
    return [1]

def a_set(document):
    return {"a": {1}}

def nan(document):
    return {"a": float("nan")}

def launcher_modules(document):
    import http.client
    return {"path": sys.path, "http": http.client.__file__}
"""


def run(root: Path, name: str, **block: Any) -> tuple[WorkProgress, str]:
    """How it ended, and its log."""
    read = launcher.read({"callable": name, **block})
    launch = Launch("r1", 1, root / "attempt", root, read, {"input": {}}, {})
    work = launcher.start(launch)
    eventually(lambda: not isinstance(work.poll(), Running))
    try:
        return work.poll(), work.log.read(0, 10_000).decode()
    finally:
        work.forget()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "lib" / "package").mkdir(parents=True)
    (tmp_path / "lib" / "package" / "tasks.py").write_text(TASKS)
    return tmp_path


def test_a_callable_of_a_package_in_the_path(root: Path) -> None:
    """X-10: also one inside of a class; standard input is used up."""
    progress, _ = run(root, "package.tasks:Deep.inside", path=["lib"])
    assert progress == Succeeded({"argv": ["package.tasks:Deep.inside"], "rest": ""})


def test_an_exception_is_the_error_and_its_traceback_the_log(root: Path) -> None:
    """X-10: failure is mapped; the traceback begins in the task's own code."""
    progress, log = run(root, "package.tasks:boom", path=["lib"])
    assert progress == Failed("exited with code 1: ValueError: the moon is too far")
    assert log.startswith("before\nTraceback (most recent call last):\n")
    assert "in boom" in log
    assert "bootstrap.py" not in log


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("a_list", "TypeError: package.tasks:a_list returned list, not a dict"),
        ("a_set", "TypeError: Object of type set is not JSON serializable"),
        ("nan", "ValueError: Out of range float values are not JSON compliant"),
        ("missing", "AttributeError: module 'package.tasks' has no attribute 'missing'"),
    ],
)
def test_what_is_no_answer_fails(root: Path, name: str, error: str) -> None:
    """X-10: an unusable answer is a failure that says what is wrong."""
    progress, _ = run(root, f"package.tasks:{name}", path=["lib"])
    assert isinstance(progress, Failed)
    assert error in progress.error


def test_a_module_that_does_not_exist(root: Path) -> None:
    """X-10: its name is in the error."""
    progress, _ = run(root, "nowhere:main")
    assert progress == Failed("exited with code 1: ModuleNotFoundError: No module named 'nowhere'")


def test_the_launchers_own_folder_is_not_importable(root: Path) -> None:
    """X-10: a task's imports are its own and the interpreter's."""
    progress, _ = run(root, "package.tasks:launcher_modules", path=["lib"])
    assert isinstance(progress, Succeeded)
    assert progress.output["path"][0] == str(root / "lib")
    assert not [entry for entry in progress.output["path"] if "reconcile" in entry.split("/")]


def test_a_path_that_does_not_exist_is_a_launch_error(root: Path) -> None:
    """X-10: a clear error before anything starts."""
    with pytest.raises(LaunchError, match=r"no such folder: /.+/missing \(path\)"):
        run(root, "tasks:main", path=["missing"])

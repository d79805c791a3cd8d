"""The `python` launcher: imports, results and exceptions of the callable."""

from pathlib import Path
from typing import Any

import pytest

from reconcile.launchers.python import launcher
from reconcile.plugins import Failed, Launch, LaunchError, Running, Succeeded, WorkProgress
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
    """Run a task to its end and return the outcome and the log."""
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


def test_a_callable_in_a_package_below_path_is_called(root: Path) -> None:
    """X-10: also one inside a class. Standard input has been read to its end before."""
    progress, _ = run(root, "package.tasks:Deep.inside", path=["lib"])
    assert progress == Succeeded({"argv": ["package.tasks:Deep.inside"], "rest": ""})


def test_an_exception_is_the_error_and_its_traceback_is_in_the_log(root: Path) -> None:
    """X-10: the traceback begins in the task's own code."""
    progress, log = run(root, "package.tasks:boom", path=["lib"])
    assert progress == Failed("exited with code 1: ValueError: the moon is too far")
    assert log.startswith("before\nTraceback (most recent call last):\n")
    assert "in boom" in log
    assert "python_child.py" not in log


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("a_list", "TypeError: package.tasks:a_list returned list, not a dict"),
        ("a_set", "TypeError: Object of type set is not JSON serializable"),
        ("nan", "ValueError: Out of range float values are not JSON compliant"),
        ("missing", "AttributeError: module 'package.tasks' has no attribute 'missing'"),
    ],
)
def test_a_result_that_is_no_output_fails(root: Path, name: str, error: str) -> None:
    """X-10: the error says what is wrong with it."""
    progress, _ = run(root, f"package.tasks:{name}", path=["lib"])
    assert isinstance(progress, Failed)
    assert error in progress.error


def test_a_missing_module_is_a_failure(root: Path) -> None:
    """X-10: its name is in the error."""
    progress, _ = run(root, "nowhere:main")
    assert progress == Failed("exited with code 1: ModuleNotFoundError: No module named 'nowhere'")


def test_the_launchers_own_folder_is_not_importable(root: Path) -> None:
    """X-10: a task imports only its own modules and the interpreter's."""
    progress, _ = run(root, "package.tasks:launcher_modules", path=["lib"])
    assert isinstance(progress, Succeeded)
    assert progress.output["path"][0] == str(root / "lib")
    assert not [entry for entry in progress.output["path"] if "reconcile" in entry.split("/")]


def test_a_missing_folder_in_path_is_a_launch_error(root: Path) -> None:
    """X-10: the error names the folder, and nothing starts."""
    with pytest.raises(LaunchError, match=r"no such folder: /.+/missing \(path\)"):
        run(root, "tasks:main", path=["missing"])

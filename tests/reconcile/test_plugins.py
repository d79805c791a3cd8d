"""Discovery of plug-ins."""

from pathlib import Path

import pytest

from reconcile import plugins


def test_a_file_in_the_folder_is_a_launcher() -> None:
    """X-10: one file each, named by its kind."""
    folder = Path(plugins.__file__).parent / "launchers"
    files = {path.stem for path in folder.glob("[!_]*.py")}
    assert {"process", "python"} <= files == set(plugins.launchers())


def test_an_unknown_kind_names_those_that_exist() -> None:
    """X-10: the error is the way out."""
    with pytest.raises(LookupError, match=r"no launcher 'proces'; there are .*process, python"):
        plugins.launcher("proces")


def test_a_file_without_a_launcher_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-10: a half-written plug-in does not disappear silently."""
    package = tmp_path / "half_written"
    package.mkdir()
    for name in ("__init__", "_neighbour", "magic"):
        (package / f"{name}.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(TypeError, match=r"magic\.py holds no `launcher`"):
        plugins.discover("half_written", "launcher")

"""Discovery of plug-ins."""

from pathlib import Path

import pytest

from reconcile import plugins


def test_each_file_in_the_folder_is_a_launcher() -> None:
    """X-10: its name is the kind."""
    folder = Path(plugins.__file__).parent / "launchers"
    files = {path.stem for path in folder.glob("[!_]*.py")}
    assert {"process", "python"} <= files == set(plugins.launchers())


def test_the_error_for_an_unknown_kind_names_the_known_ones() -> None:
    """X-10: so that the user sees what to write."""
    with pytest.raises(LookupError, match=r"no launcher 'proces'; there are .*process, python"):
        plugins.launcher("proces")


def test_the_error_for_a_file_without_a_launcher_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X-10: a half-written plug-in is not ignored."""
    package = tmp_path / "half_written"
    package.mkdir()
    for name in ("__init__", "_neighbour", "magic"):
        (package / f"{name}.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(TypeError, match=r"magic\.py holds no `launcher`"):
        plugins.discover("half_written", "launcher")

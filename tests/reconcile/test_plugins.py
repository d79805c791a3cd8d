"""Discovery of plug-ins."""

import sys
from pathlib import Path
from types import ModuleType

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
    package = ModuleType("half_written")
    package.__path__ = [str(tmp_path)]
    monkeypatch.setitem(sys.modules, "half_written", package)
    monkeypatch.setattr(plugins, "_launchers", package)
    (tmp_path / "_neighbour.py").touch()
    (tmp_path / "magic.py").touch()
    plugins.launchers.cache_clear()
    try:
        with pytest.raises(TypeError, match=r"magic\.py holds no `launcher`"):
            plugins.launchers()
    finally:
        plugins.launchers.cache_clear()
        sys.modules.pop("half_written.magic", None)

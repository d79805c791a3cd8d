"""Architecture rules that import-linter cannot check."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("revisions", "reconcile", "controller")
SOURCES = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]


def lines_matching(pattern: str, *, but: tuple[str, ...] = ()) -> list[str]:
    """Return "file:line" of every source line that matches, except in files that start with `but`."""
    return [
        f"{path.relative_to(ROOT)}:{number}"
        for path in SOURCES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(pattern, line) and not str(path.relative_to(ROOT)).startswith(but)
    ]


def test_the_wall_clock_is_read_in_one_place() -> None:
    """L-12: time comes from the injected clock; only the alarms also use the host's."""
    assert (
        lines_matching(r"datetime\.(now|utcnow)\(|time\.time\(", but=("revisions/clock.py", "reconcile/loop/alarms.py"))
        == []
    )


def test_no_statement_uses_the_start_of_its_transaction() -> None:
    """L-12: after waiting for a lock, SQL's `now()` lies in the past."""
    assert lines_matching(r"func\.now\(|current_timestamp|CURRENT_TIMESTAMP|\bNOW\(\)") == []


@pytest.mark.parametrize(
    ("library", "home"),
    [
        ("apscheduler", "reconcile/loop/alarms.py"),
        ("croniter", "reconcile/schedule/fires.py"),
        ("sqlalchemy", "revisions/store/"),
        ("psycopg", "revisions/store/"),
        ("celery", "reconcile/launchers/celery.py"),
        ("flyteidl2", "reconcile/launchers/flyte.py"),
        ("connectrpc", "reconcile/launchers/flyte.py"),
        ("kubernetes", "reconcile/launchers/shared/kubernetes_cluster.py"),
    ],
)
def test_a_library_is_imported_in_one_place(library: str, home: str) -> None:
    """S-10: croniter and each other heavy library."""
    assert lines_matching(rf"^\s*(from|import) {library}\b", but=(home,)) == []


def test_launchers_do_not_import_each_other() -> None:
    """X-10: a launcher is one file beside the modules that all of them share."""
    assert lines_matching(r"^\s*(from|import) reconcile\.launchers\b(?!\.shared\b)") == []


def test_no_code_is_marked_as_unfinished() -> None:
    """U-05: no stub counts as done."""
    assert lines_matching(r"TODO|FIXME|XXX|NotImplementedError") == []


@pytest.mark.xdist_group("together")
def test_tests_of_a_group_run_on_one_worker(request: pytest.FixtureRequest) -> None:
    """U-05: pytest-xdist assigns tests by the group at the end of their node id."""
    grouped = getattr(request.config.option, "loadgroup", False)
    assert request.node.nodeid.endswith("@together") == grouped

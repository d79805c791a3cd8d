"""The law of the house, held where the import linter cannot see."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("revisions", "reconcile", "controller")
SOURCES = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]


def _where(pattern: str, *, but: tuple[str, ...] = ()) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}"
        for path in SOURCES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(pattern, line) and not str(path.relative_to(ROOT)).startswith(but)
    ]


def test_the_wall_clock_is_read_in_one_place() -> None:
    """L-12: time comes from the injected clock; only the alarm clock, which runs by the host's, reads that too."""
    assert (
        _where(r"datetime\.(now|utcnow)\(|time\.time\(", but=("revisions/clock.py", "reconcile/loop/timers.py")) == []
    )


def test_no_statement_asks_for_the_start_of_its_transaction() -> None:
    """L-12: `now()` lies in the past after a lock wait, so no SQL uses it."""
    assert _where(r"func\.now\(|current_timestamp|CURRENT_TIMESTAMP|\bNOW\(\)") == []


@pytest.mark.parametrize(
    ("library", "home"),
    [
        ("apscheduler", "reconcile/loop/timers.py"),
        ("croniter", "reconcile/schedule/fires.py"),
        ("sqlalchemy", "revisions/store/"),
        ("psycopg", "revisions/store/"),
        ("celery", "reconcile/launchers/celery.py"),
        ("flyteidl2", "reconcile/launchers/flyte.py"),
        ("connectrpc", "reconcile/launchers/flyte.py"),
        ("kubernetes", "reconcile/launchers/shared/kubernetes_cluster.py"),
    ],
)
def test_a_library_has_one_home(library: str, home: str) -> None:
    """S-10: schedule rules alone know croniter; each other heavy library has one home too."""
    assert _where(rf"^\s*(from|import) {library}\b", but=(home,)) == []


def test_plug_ins_do_not_know_each_other() -> None:
    """X-10: one launcher is one file that imports no other."""
    assert _where(r"^\s*(from|import) reconcile\.launchers\b(?!\.shared)") == []


def test_nothing_unfinished_is_left() -> None:
    """U-05: no stub is called done."""
    assert _where(r"TODO|FIXME|XXX|NotImplementedError") == []


@pytest.mark.xdist_group("together")
def test_groups_stay_together(request: pytest.FixtureRequest) -> None:
    """U-05: where workers share the suite, what is of one group goes to one of them, which sees it by the name."""
    grouped = getattr(request.config.option, "loadgroup", False)
    assert request.node.nodeid.endswith("@together") == grouped

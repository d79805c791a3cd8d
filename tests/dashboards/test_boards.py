"""The committed dashboards, rules and runbooks are up to date and complete."""

import re
from pathlib import Path

import pytest

from dashboards.__main__ import BOARDS, CHART, files
from dashboards.alerts import ALERTS, RUNBOOKS, Alert
from tests.dashboards import boards
from tests.docs import pages
from tests.docs.pages import ROOT

INDEX = ROOT / RUNBOOKS / "README.md"


@pytest.mark.parametrize(("path", "built"), files().items(), ids=lambda value: getattr(value, "name", ""))
def test_committed_files_are_up_to_date(path: Path, built: str) -> None:
    """O-03: `make dashboards` changes nothing."""
    assert path.read_text(encoding="utf-8") == built


def test_no_other_file_is_beside_the_built_ones() -> None:
    """O-03: a file that is not built here would never be checked."""
    assert {path for folder in ("dashboards", "rules") for path in (CHART / folder).iterdir()} == set(files())


@pytest.mark.parametrize("name", BOARDS)
def test_every_panel_has_a_title_and_a_description(name: str) -> None:
    """O-03: titles are unique within a dashboard."""
    shown = [panel for panel in boards.read_board(name)["panels"] if panel["type"] not in ("row", "text")]
    titles = [panel["title"] for panel in shown]
    assert len(set(titles)) == len(titles)
    assert [panel["title"] for panel in shown if not panel.get("description")] == []


@pytest.mark.parametrize("name", BOARDS)
def test_panels_do_not_overlap(name: str) -> None:
    """O-03: within a grid of 24 columns."""
    occupied: set[tuple[int, int]] = set()
    for panel in boards.read_board(name)["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & occupied, panel["title"]
        assert max(x for x, _ in cells) < 24, panel["title"]
        occupied |= cells


@pytest.mark.parametrize(
    "query", list(boards.queries()), ids=lambda query: f"{query.board}-{query.panel}-{query.legend}"[:60]
)
def test_every_query_selects_one_installation(query: boards.Query) -> None:
    """O-03: two installations in one Prometheus are never added up."""
    assert [selector for selector in boards.selectors(query.expression) if 'job="$job"' not in selector] == []


def test_every_metric_is_on_a_dashboard() -> None:
    """O-03: except the build information."""
    named = pages.metrics(pages.text("docs/operations.md")) - {"triggerctl_build_info"}
    shown = " ".join(query.expression for query in boards.queries())
    assert [name for name in named if name not in shown] == []


def test_every_alert_has_one_runbook() -> None:
    """O-03: the alert names it and the index lists it; no runbook is without an alert."""
    runbooks = {path.name for path in (ROOT / RUNBOOKS).glob("*.md")} - {INDEX.name}
    assert {alert.page for alert in ALERTS} == runbooks
    listed = {file for file, _ in pages.links(INDEX.read_text(encoding="utf-8"))}
    assert runbooks <= listed


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_a_runbook_has_sections_to_see_and_to_act(alert: Alert) -> None:
    """O-03: under the alert's name."""
    page = (ROOT / RUNBOOKS / alert.page).read_text(encoding="utf-8")
    assert page.startswith(f"# {alert.name}\n")
    if alert.name != "TriggerctlFiresLate":  # its table combines both sections
        assert "\n## See it\n" in page
        assert "\n## What to do\n" in page


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_a_runbook_names_existing_panels(alert: Alert) -> None:
    """O-03: at least by the beginning of their titles, and dashboards by theirs."""
    board_titles = {str(boards.read_board(name)["title"]) for name in BOARDS}
    titles = board_titles | {title.partition(": ")[2] for title in board_titles}
    titles |= {panel["title"] for name in BOARDS for panel in boards.read_board(name)["panels"]}
    text = " ".join((ROOT / RUNBOOKS / alert.page).read_text(encoding="utf-8").split())
    named = re.findall(r"(?<![*\w])\*([^*]+)\*", text)
    assert [name for name in named if not any(title.startswith(name) for title in titles)] == []


def test_the_trigger_dashboard_links_to_the_web_page() -> None:
    """O-03: metrics have no label for a trigger's name, so the link leads to the project's list of triggers."""
    board = boards.read_board("trigger")
    variables = {variable["name"] for variable in board["templating"]["list"]}
    [url] = [link["url"] for link in board["links"] if link["type"] == "link"]
    assert url == "${address}/?project=${project}"
    assert {"address", "project"} <= variables

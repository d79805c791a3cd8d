"""What lies in the chart is what the builders make, and leads somewhere."""

import re
from pathlib import Path

import pytest

from dashboards.__main__ import BOARDS, CHART, files
from dashboards.alerts import ALERTS, RUNBOOKS, Alert
from tests.dashboards import boards
from tests.docs import pages
from tests.docs.pages import ROOT

INDEX = ROOT / RUNBOOKS / "README.md"


@pytest.mark.parametrize(("path", "made"), files().items(), ids=lambda value: getattr(value, "name", ""))
def test_what_is_committed_is_fresh(path: Path, made: str) -> None:
    """O-03: `make dashboards` would change nothing."""
    assert path.read_text(encoding="utf-8") == made


def test_nothing_else_lies_beside_it() -> None:
    """O-03: a dashboard or a rule that nobody makes would never be checked."""
    assert {path for folder in ("dashboards", "rules") for path in (CHART / folder).iterdir()} == set(files())


@pytest.mark.parametrize("name", BOARDS)
def test_every_panel_says_what_it_shows(name: str) -> None:
    """O-03: and no two of a dashboard look the same in a list."""
    shown = [panel for panel in boards.read(name)["panels"] if panel["type"] not in ("row", "text")]
    titles = [panel["title"] for panel in shown]
    assert len(set(titles)) == len(titles)
    assert [panel["title"] for panel in shown if not panel.get("description")] == []


@pytest.mark.parametrize("name", BOARDS)
def test_panels_do_not_lie_over_each_other(name: str) -> None:
    """O-03: within a grid of 24 columns."""
    taken: set[tuple[int, int]] = set()
    for panel in boards.read(name)["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24, panel["title"]
        taken |= cells


@pytest.mark.parametrize(
    "query", list(boards.queries()), ids=lambda query: f"{query.board}-{query.panel}-{query.legend}"[:60]
)
def test_every_query_looks_at_one_installation(query: boards.Query) -> None:
    """O-03: two in one Prometheus are never added up."""
    assert [read for read in boards.selectors(query.expression) if 'job="$job"' not in read] == []


def test_every_metric_stands_on_a_dashboard() -> None:
    """O-03: what nobody can see need not be counted; the versions are Prometheus' to show."""
    named = pages.metrics(pages.text("docs/operations.md")) - {"triggerctl_build_info"}
    shown = " ".join(query.expression for query in boards.queries())
    assert [name for name in named if name not in shown] == []


def test_every_alert_has_its_runbook_and_every_runbook_its_alert() -> None:
    """O-03: one page for each, named by it, and listed."""
    pages_there = {path.name for path in (ROOT / RUNBOOKS).glob("*.md")} - {INDEX.name}
    assert {alert.page for alert in ALERTS} == pages_there
    listed = {file for file, _ in pages.links(INDEX.read_text(encoding="utf-8"))}
    assert pages_there <= listed


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_a_runbook_says_what_it_means_how_to_see_it_and_what_to_do(alert: Alert) -> None:
    """O-03: under its alert's name."""
    page = (ROOT / RUNBOOKS / alert.page).read_text(encoding="utf-8")
    assert page.startswith(f"# {alert.name}\n")
    if alert.name != "TriggerctlFiresLate":  # one table says both there
        assert "\n## See it\n" in page
        assert "\n## What to do\n" in page


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_a_runbook_names_panels_that_are_there(alert: Alert) -> None:
    """O-03: by the beginning of their titles at least, and dashboards by theirs."""
    boards_there = {str(boards.read(name)["title"]) for name in BOARDS}
    titles = boards_there | {title.partition(": ")[2] for title in boards_there}
    titles |= {panel["title"] for name in BOARDS for panel in boards.read(name)["panels"]}
    text = " ".join((ROOT / RUNBOOKS / alert.page).read_text(encoding="utf-8").split())
    named = re.findall(r"(?<![*\w])\*([^*]+)\*", text)
    assert [name for name in named if not any(title.startswith(name) for title in titles)] == []


def test_the_trigger_is_one_click_away() -> None:
    """O-03: metrics bear no trigger's name, so the dashboard leads to the page that lists the project's."""
    board = boards.read("trigger")
    variables = {variable["name"] for variable in board["templating"]["list"]}
    [url] = [link["url"] for link in board["links"] if link["type"] == "link"]
    assert url == "${address}/?project=${project}"
    assert {"address", "project"} <= variables

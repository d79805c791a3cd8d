"""The dashboards and rules against a real Prometheus that scrapes a real controller under load."""

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import psycopg
import pytest
from sqlalchemy import make_url

from dashboards.__main__ import BOARDS, CHART
from dashboards.alerts import ALERTS
from revisions.store import schema
from revisions.store.database import Database
from tests.crash.site import Site
from tests.dashboards import boards
from tests.dashboards.line import Line
from tests.dashboards.load import BUSY, FROZEN, PROJECT, SETTINGS, Load
from tests.dashboards.prometheus import JOB, Prometheus
from tests.ports import reserved
from tests.waiting import eventually

pytestmark = [
    pytest.mark.xdist_group("dashboards"),
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not installed"),
]


class Watched(NamedTuple):
    """A controller under load, the line to its database, and the Prometheus that scrapes it."""

    load: Load
    line: Line
    prometheus: Prometheus


@pytest.fixture(scope="module")
def watched(postgresql_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("watched")
    with ExitStack() as stack:
        database_url = stack.enter_context(own_database(postgresql_url))
        line = Line(database_url)
        stack.callback(line.close)
        site = Site(database_url, folder / "site")
        stack.callback(site.close)
        controller = site.up(**SETTINGS | {"DATABASE_URL": line.url, "LISTEN_URL": database_url})
        load = Load(controller.url)
        stack.callback(load.close)
        rules = CHART / "rules" / "triggerctl.yaml"
        port = stack.enter_context(reserved())
        prometheus = Prometheus(urlsplit(controller.url).netloc, rules, folder / "prometheus", port)
        stack.callback(prometheus.stop)
        load.begin()
        held = f'triggerctl_late_seconds{{project="{BUSY}", cause="freeze"}} > 13'  # beyond the grace
        eventually(lambda: prometheus.query(held), every=0.5)
        load.go_on()
        yield Watched(load, line, prometheus)


@contextmanager
def own_database(server: str) -> Iterator[str]:
    """A database beside those of other tests, which are emptied while this one is in use."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS watched WITH (FORCE)")
        connection.execute("CREATE DATABASE watched")
        url = make_url(server).set(database="watched").render_as_string(hide_password=False)
        with Database(url) as database:
            schema.upgrade(database)
        yield url
        connection.execute("DROP DATABASE watched WITH (FORCE)")


def test_every_query_of_every_panel_has_data(watched: Watched) -> None:
    """O-03: none is refused, and each comes to numbers, with the dashboards' variables filled in."""
    wanted = {query: query.asked(FROZEN) for query in boards.queries()}
    assert len(wanted) > 50

    def without() -> list[boards.Query]:
        return [query for query, expression in wanted.items() if not watched.prometheus.query(expression)]

    with suppress(AssertionError):
        eventually(lambda: not without(), every=0.5)
    assert without() == []


@pytest.mark.parametrize(
    ("name", "panel", "legend", "label"),
    [
        ("runs", "Runs that ended, by outcome", "{{outcome}}", "succeeded"),
        ("runs", "Runs that ended, by outcome", "{{outcome}}", "failed"),
        ("runs", "Runs that ended, by source", "{{source}}", "schedule"),
        ("runs", "Occurrences that became no run, by reason", "{{reason}}", "concurrency"),
        ("runs", "Catching up", "runs a second", ""),
        ("runs", "Wait for a token", "95 %", ""),
        ("fleet", "Deactivated, by reason", "{{reason}}", "failures"),
        ("fleet", "Stopped by failures", "", ""),
        ("fleet", "Budget used, by project", "{{project}}", PROJECT),
        ("fleet", "Deadlines missed", "{{kind}}", "within"),
        ("fleet", "Due since, by project", "{{project}}", FROZEN),
    ],
)
def test_what_happens_moves_a_panel(watched: Watched, name: str, panel: str, legend: str, label: str) -> None:
    """O-03: runs that succeed and fail, skips, tokens, what is caught up, a trigger that was stopped, a budget."""
    board = Board(watched.prometheus, name)
    eventually(lambda: board.highest(panel, legend, label) > 0, every=0.5)


@pytest.mark.parametrize("name", BOARDS)
def test_every_variable_offers_what_there_is(watched: Watched, name: str) -> None:
    """O-03: the installation, and every project that has active triggers."""
    offered = {}
    for variable, query in boards.variables(name).items():
        found = re.fullmatch(r"label_values\((.*), (\w+)\)", boards.filled(query, ""))
        assert found is not None, query
        offered[variable] = watched.prometheus.labels(found[1], found[2])
    assert offered["job"] == [JOB]
    if "project" in offered:
        assert offered["project"] == [PROJECT, BUSY, FROZEN]


def test_every_rule_is_taken_and_reads_what_is_there(watched: Watched) -> None:
    """O-03: Prometheus evaluates each without a fault, and whatever it looks at is scraped."""
    loaded = eventually(lambda: evaluated(watched.prometheus), every=0.5)
    assert {rule["name"]: (rule["health"], rule.get("lastError", "")) for rule in loaded} == {
        alert.name: ("ok", "") for alert in ALERTS
    }
    for alert in ALERTS:
        watched.prometheus.query(alert.expr)
        for selector in boards.selectors(alert.expr):
            eventually(partial(watched.prometheus.query, selector), every=0.5)  # a scrape may have come to nothing


def evaluated(prometheus: Prometheus) -> list[dict[str, Any]]:
    """All rules, once each was evaluated."""
    rules = prometheus.rules()
    return rules if all(rule["health"] != "unknown" for rule in rules) else []


class Board:
    """One dashboard as somebody reads it who has chosen a project."""

    def __init__(self, prometheus: Prometheus, name: str, project: str = PROJECT) -> None:
        self._prometheus, self._project = prometheus, project
        self._queries = {(query.panel, query.legend): query for query in boards.queries(name)}

    def lines(self, panel: str, legend: str) -> dict[str, float]:
        """What a line of a panel shows now, by the label that it is named by."""
        return self._shown(self._asked(panel, legend))

    def read(self, panel: str, legend: str, named: str = "") -> float:
        """One number, 0 where the panel shows none."""
        return self.lines(panel, legend).get(named, 0.0)

    def highest(self, panel: str, legend: str, named: str) -> float:
        """The highest point of a line so far."""
        return self._shown(f"max_over_time(({self._asked(panel, legend)})[10m:1s])").get(named, 0.0)

    def _asked(self, panel: str, legend: str) -> str:
        return self._queries[panel, legend].asked(self._project)

    def _shown(self, expression: str) -> dict[str, float]:
        return {" ".join(labels.values()): value for labels, value in self._prometheus.query(expression)}


SLOW_SECONDS = 0.9
"""A database that takes so long to answer a scrape is slow: it takes a hundredth of that, or a tenth while many tests
share few cores, and twice that where the fault is staged."""
WAITS_SECONDS = 8.0
"""What is due for so long is late, and not merely about to be decided, however slow the machine."""
LOOKS = 3
"""How often in a row it has to say the same: somebody who looks sees it, whenever he looks."""


def why_late(prometheus: Prometheus, project: str) -> str:
    """The runbook's table, read from its top, on the dashboard `triggerctl: one trigger`."""
    board = Board(prometheus, "trigger", project)
    since = board.lines("Due since, by cause", "{{cause}}")
    answer = board.read("Database: duration of transactions", "answer to a scrape")
    if not since:
        return "no answer to the newest scrape yet"
    if max(since.values()) < WAITS_SECONDS:
        return "not late"
    if board.lines("Frozen", "{{project}}") and since["freeze"] > WAITS_SECONDS:
        return "frozen"
    if answer > SLOW_SECONDS:
        return "database"
    if since["rate"] > WAITS_SECONDS:
        return "rate"
    return f"unexplained: {since}, {answer}"


@pytest.mark.parametrize(
    ("fault", "project", "begin", "end"),
    [
        ("frozen", PROJECT, lambda on: on.load.freeze(PROJECT), lambda on: on.load.unfreeze(PROJECT)),
        ("rate", BUSY, lambda on: on.load.crowd(), lambda on: on.load.disperse()),
        ("database", PROJECT, lambda on: on.line.take(0.15), lambda on: on.line.take(0)),
    ],
)
def test_the_dashboard_tells_why_a_trigger_is_late(
    watched: Watched, fault: str, project: str, begin: Callable[[Watched], None], end: Callable[[Watched], None]
) -> None:
    """O-03: one staged fault after the other, told apart by what one dashboard shows, and gone when it is over."""
    seen: list[str] = []

    def tells(expected: str) -> bool:
        seen.append(why_late(watched.prometheus, project))
        return seen[-LOOKS:] == [expected] * LOOKS

    eventually(lambda: tells("not late"), every=0.5)
    begin(watched)
    try:
        eventually(lambda: tells(fault), every=0.5)
    finally:
        end(watched)
    eventually(lambda: tells("not late"), every=0.5)

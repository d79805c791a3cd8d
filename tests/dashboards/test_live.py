"""Dashboards and rules on a real Prometheus that scrapes a real controller under load."""

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
from tests.dashboards.load import BUSY, FROZEN, PROJECT, SETTINGS, Load
from tests.dashboards.prometheus import JOB, Prometheus
from tests.dashboards.slow_proxy import SlowProxy
from tests.ports import reserved
from tests.waiting import eventually

pytestmark = [
    pytest.mark.xdist_group("dashboards"),
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not installed"),
]


class Monitored(NamedTuple):
    """Controller under load, the proxy to its database, and the Prometheus that scrapes it."""

    load: Load
    proxy: SlowProxy
    prometheus: Prometheus


@pytest.fixture(scope="module")
def monitored(postgresql_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    folder = tmp_path_factory.mktemp("watched")
    with ExitStack() as stack:
        database_url = stack.enter_context(separate_database(postgresql_url))
        proxy = SlowProxy(database_url)
        stack.callback(proxy.close)
        site = Site(database_url, folder / "site")
        stack.callback(site.close)
        controller = site.up(**SETTINGS | {"DATABASE_URL": proxy.url, "LISTEN_URL": database_url})
        load = Load(controller.url)
        stack.callback(load.close)
        rules = CHART / "rules" / "triggerctl.yaml"
        port = stack.enter_context(reserved())
        prometheus = Prometheus(urlsplit(controller.url).netloc, rules, folder / "prometheus", port)
        stack.callback(prometheus.stop)
        load.begin()
        freeze_lasts = f'triggerctl_late_seconds{{project="{BUSY}", cause="freeze"}} > 13'  # longer than LIVE_GRACE
        eventually(lambda: prometheus.query(freeze_lasts), every=0.5)
        load.start_catch_up()
        yield Monitored(load, proxy, prometheus)


@contextmanager
def separate_database(server: str) -> Iterator[str]:
    """Database that is not shared with other tests, which empty theirs while this one is in use."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS watched WITH (FORCE)")
        connection.execute("CREATE DATABASE watched")
        url = make_url(server).set(database="watched").render_as_string(hide_password=False)
        with Database(url) as database:
            schema.upgrade(database)
        yield url
        connection.execute("DROP DATABASE watched WITH (FORCE)")


def test_every_query_of_every_panel_returns_data(monitored: Monitored) -> None:
    """O-03: with the dashboards' variables filled in; none is refused."""
    expressions = {query: query.for_project(FROZEN) for query in boards.queries()}
    assert len(expressions) > 50

    def queries_without_data() -> list[boards.Query]:
        return [query for query, expression in expressions.items() if not monitored.prometheus.query(expression)]

    with suppress(AssertionError):
        eventually(lambda: not queries_without_data(), every=0.5)
    assert queries_without_data() == []


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
def test_events_change_their_panel(monitored: Monitored, name: str, panel: str, legend: str, label: str) -> None:
    """O-03: successes, failures, skips, rate tokens, catch-up, a trigger stopped by failures, a budget."""
    board = Board(monitored.prometheus, name)
    eventually(lambda: board.maximum(panel, legend, label) > 0, every=0.5)


@pytest.mark.parametrize("name", BOARDS)
def test_every_variable_offers_existing_values(monitored: Monitored, name: str) -> None:
    """O-03: the installation, and every project with active triggers."""
    offered = {}
    for variable, query in boards.variables(name).items():
        match = re.fullmatch(r"label_values\((.*), (\w+)\)", boards.fill_variables(query, ""))
        assert match is not None, query
        offered[variable] = monitored.prometheus.labels(match[1], match[2])
    assert offered["job"] == [JOB]
    if "project" in offered:
        assert offered["project"] == [PROJECT, BUSY, FROZEN]


def test_every_rule_is_evaluated_and_reads_existing_metrics(monitored: Monitored) -> None:
    """O-03: without an error."""
    loaded = eventually(lambda: evaluated_rules(monitored.prometheus), every=0.5)
    assert {rule["name"]: (rule["health"], rule.get("lastError", "")) for rule in loaded} == {
        alert.name: ("ok", "") for alert in ALERTS
    }
    for alert in ALERTS:
        monitored.prometheus.query(alert.expr)
        for selector in boards.selectors(alert.expr):
            eventually(partial(monitored.prometheus.query, selector), every=0.5)  # a single scrape may have failed


def evaluated_rules(prometheus: Prometheus) -> list[dict[str, Any]]:
    """Return all rules once each has been evaluated."""
    rules = prometheus.rules()
    return rules if all(rule["health"] != "unknown" for rule in rules) else []


class Board:
    """Dashboard as seen by a person who has selected a project."""

    def __init__(self, prometheus: Prometheus, name: str, project: str = PROJECT) -> None:
        self._prometheus, self._project = prometheus, project
        self._queries = {(query.panel, query.legend): query for query in boards.queries(name)}

    def lines(self, panel: str, legend: str) -> dict[str, float]:
        """Return the current values of a panel's lines, by the label that names them."""
        return self._values(self._query(panel, legend))

    def value(self, panel: str, legend: str, named: str = "") -> float:
        """Return one current value, 0 if the panel shows none."""
        return self.lines(panel, legend).get(named, 0.0)

    def maximum(self, panel: str, legend: str, named: str) -> float:
        """Return the highest value of a line so far."""
        return self._values(f"max_over_time(({self._query(panel, legend)})[10m:1s])").get(named, 0.0)

    def _query(self, panel: str, legend: str) -> str:
        return self._queries[panel, legend].for_project(self._project)

    def _values(self, expression: str) -> dict[str, float]:
        return {" ".join(labels.values()): value for labels, value in self._prometheus.query(expression)}


SLOW_SECONDS = 0.9
"""Duration of a scrape above which the database counts as slow.

It normally takes a hundredth of this, a tenth on a loaded machine, and twice this with the staged fault.
"""
WAITS_SECONDS = 8.0
"""Age of a due occurrence above which it is late even on a slow machine, and not merely about to be decided."""
REPEATS = 3
"""Number of equal readings in a row that a dashboard has to show."""


def diagnose_lateness(prometheus: Prometheus, project: str) -> str:
    """Follow the runbook's table from its top on the dashboard `triggerctl: one trigger`."""
    board = Board(prometheus, "trigger", project)
    since = board.lines("Due since, by cause", "{{cause}}")
    answer = board.value("Database: duration of transactions", "answer to a scrape")
    if not since:
        return "no data from the latest scrape"
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
        ("frozen", PROJECT, lambda setup: setup.load.freeze(PROJECT), lambda setup: setup.load.unfreeze(PROJECT)),
        ("rate", BUSY, lambda setup: setup.load.exceed_rate(), lambda setup: setup.load.end_excess()),
        ("database", PROJECT, lambda setup: setup.proxy.set_delay(0.15), lambda setup: setup.proxy.set_delay(0)),
    ],
)
def test_the_dashboard_shows_why_a_trigger_is_late(
    monitored: Monitored, fault: str, project: str, begin: Callable[[Monitored], None], end: Callable[[Monitored], None]
) -> None:
    """O-03: three staged faults are told apart by one dashboard, and disappear from it when they end."""
    readings: list[str] = []

    def shows(expected: str) -> bool:
        readings.append(diagnose_lateness(monitored.prometheus, project))
        return readings[-REPEATS:] == [expected] * REPEATS

    eventually(lambda: shows("not late"), every=0.5)
    begin(monitored)
    try:
        eventually(lambda: shows(fault), every=0.5)
    finally:
        end(monitored)
    eventually(lambda: shows("not late"), every=0.5)

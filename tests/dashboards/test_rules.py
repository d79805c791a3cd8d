"""The alert rules, judged by Prometheus' own tool: each fires when it should, and not when it nearly should."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from dashboards.__main__ import CHART
from dashboards.alerts import ALERTS
from tests.chart.modes import release
from tests.chart.objects import NAMESPACE
from tests.dashboards import boards
from tests.dashboards.rules import AGE, INTERVAL, STAGED, Staged, one, unit_tests
from tests.waiting import PATIENCE

pytestmark = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
RULES = CHART / "rules" / "triggerctl.yaml"


def promtool(*arguments: str) -> None:
    """Fails with what it says."""
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_are_rules() -> None:
    """O-03: by Prometheus' own reading."""
    promtool("check", "rules", str(RULES))


def test_each_alert_fires_when_it_should_and_else_not(tmp_path: Path) -> None:
    """O-03: with its labels and its words; at every stage all other alerts are silent. Skips never alert."""
    path = tmp_path / "tests.yaml"
    path.write_text(json.dumps(unit_tests(str(RULES))), encoding="utf-8")
    promtool("test", "rules", str(path))


def test_every_alert_is_staged() -> None:
    """O-03: that it fires is shown of each."""
    assert {staged.fires for staged in STAGED} - {""} == {alert.name for alert in ALERTS}


OWN = {"namespace": NAMESPACE, "job": f"{NAMESPACE}/acme-triggerctl"}
OTHERS = {AGE: "0+60x20", INTERVAL: "30x20", one("quarantined"): "1x30"}
WELL = {one("resync_age_seconds", **OWN): "15x30", one("setting", **OWN, name="resync_interval"): "30x30"}
RELEASES = (
    Staged("another release is scraped, this one is not", {AGE: "15x20"}, 5, "TriggerctlNotReconciling", OWN),
    Staged("another release is ill, this one is not", OTHERS | WELL, 20),
    Staged("this one is ill", WELL | {one("quarantined", **OWN): "1x30"}, 20, "TriggerctlQuarantined", OWN, "1"),
)


def test_the_rules_of_a_release_look_at_that_release_alone(tmp_path: Path) -> None:
    """O-03: with two in one Prometheus, each rings for itself and once."""
    installed = release("split").one("PrometheusRule")["spec"]
    rules, tests = tmp_path / "rules.yaml", tmp_path / "tests.yaml"
    rules.write_text(json.dumps(installed), encoding="utf-8")
    tests.write_text(json.dumps(unit_tests(str(rules), RELEASES)), encoding="utf-8")
    promtool("test", "rules", str(tests))


def test_api_and_worker_are_one_installation_under_the_name_that_the_rules_ask_for() -> None:
    """O-03: the ServiceMonitor gives both Services' pods one job, or what tells of the database would ring twice."""
    installed = release("split")
    [endpoint] = installed.one("ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["relabelings"] == [{"action": "replace", "targetLabel": "job", "replacement": OWN["job"]}]
    here = f'{{namespace="{OWN["namespace"]}",job="{OWN["job"]}"'
    [group] = installed.one("PrometheusRule")["spec"]["groups"]
    for rule in group["rules"]:
        read = boards.selectors(rule["expr"])
        assert read
        assert [selector for selector in read if here not in selector] == []

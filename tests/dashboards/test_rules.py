"""Alert rules, checked with promtool: each fires when it should, and not when it nearly should."""

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
from tests.dashboards.rules import AGE, INTERVAL, RULE_CASES, RuleCase, series, unit_tests
from tests.waiting import PATIENCE

pytestmark = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
RULES = CHART / "rules" / "triggerctl.yaml"


def promtool(*arguments: str) -> None:
    """Run promtool and fail with its output."""
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_accepts_the_rules() -> None:
    """O-03: Prometheus' own tool checks their syntax."""
    promtool("check", "rules", str(RULES))


def test_each_alert_fires_only_when_it_should(tmp_path: Path) -> None:
    """O-03: with its labels and its text, while all other alerts are silent. Skips never alert."""
    path = tmp_path / "tests.yaml"
    path.write_text(json.dumps(unit_tests(str(RULES))), encoding="utf-8")
    promtool("test", "rules", str(path))


def test_every_alert_has_a_case_in_which_it_fires() -> None:
    """O-03: an alert that can never fire is useless."""
    assert {case.fires for case in RULE_CASES} - {""} == {alert.name for alert in ALERTS}


OWN_LABELS = {"namespace": NAMESPACE, "job": f"{NAMESPACE}/acme-triggerctl"}
OTHER_FAULTY = {AGE: "0+60x20", INTERVAL: "30x20", series("quarantined"): "1x30"}
OWN_HEALTHY = {
    series("resync_age_seconds", **OWN_LABELS): "15x30",
    series("setting", **OWN_LABELS, name="resync_interval"): "30x30",
}
RELEASES = (
    RuleCase("another release is scraped, this one is not", {AGE: "15x20"}, 5, "TriggerctlNotReconciling", OWN_LABELS),
    RuleCase("another release is faulty, this one is not", OTHER_FAULTY | OWN_HEALTHY, 20),
    RuleCase(
        "this release is faulty",
        OWN_HEALTHY | {series("quarantined", **OWN_LABELS): "1x30"},
        20,
        "TriggerctlQuarantined",
        OWN_LABELS,
        "1",
    ),
)


def test_the_rules_of_a_release_select_that_release_only(tmp_path: Path) -> None:
    """O-03: with two releases in one Prometheus, each alerts once and for itself."""
    installed = release("split").single("PrometheusRule")["spec"]
    rules, tests = tmp_path / "rules.yaml", tmp_path / "tests.yaml"
    rules.write_text(json.dumps(installed), encoding="utf-8")
    tests.write_text(json.dumps(unit_tests(str(rules), RELEASES)), encoding="utf-8")
    promtool("test", "rules", str(tests))


def test_api_and_worker_have_one_job_label() -> None:
    """O-03: otherwise alerts about their database would fire twice."""
    installed = release("split")
    [endpoint] = installed.single("ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["relabelings"] == [{"action": "replace", "targetLabel": "job", "replacement": OWN_LABELS["job"]}]
    own_selector = f'{{namespace="{OWN_LABELS["namespace"]}",job="{OWN_LABELS["job"]}"'
    [group] = installed.single("PrometheusRule")["spec"]["groups"]
    for rule in group["rules"]:
        selectors = boards.selectors(rule["expr"])
        assert selectors
        assert [selector for selector in selectors if own_selector not in selector] == []

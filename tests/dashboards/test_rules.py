"""The alert rules, judged by Prometheus' own tool: each fires when it should, and not when it nearly should."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from dashboards.__main__ import CHART
from dashboards.alerts import ALERTS
from tests.dashboards.rules import STAGED, unit_tests

pytestmark = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
RULES = CHART / "rules" / "triggerctl.yaml"


def promtool(*arguments: str) -> None:
    """Fails with what it says."""
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=60, check=False)
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

"""Format of log lines."""

import json
import logging
from datetime import UTC, datetime

import pytest

from controller.telemetry import logs
from reconcile.observations.passes import FeedRead, TriggerQuarantined
from reconcile.observations.specs import HoldChanged
from revisions.ids import TriggerKey
from revisions.outcomes import HoldKind


@pytest.mark.parametrize("form", ["text", "json"])
def test_instants_and_names_are_written_as_in_the_api(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    """O-05: instants as RFC 3339 in UTC, names as text."""
    logs.configure("info", form)
    until = datetime(2026, 3, 2, 8, 0, 2, tzinfo=UTC)
    logs.write(TriggerQuarantined(TriggerKey("a", "b", "c", "d"), "01KJ", until, "cannot be read"))
    line = capsys.readouterr().err
    assert "2026-03-02T08:00:02Z" in line
    assert "a/b/c/d" in line
    assert "datetime" not in line
    if form == "json":
        assert {"event", "trigger", "trigger_id", "until", "error"} <= set(json.loads(line))


def test_facts_without_a_value_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """O-05: a freeze of everything has no project and no end."""
    logs.configure("info", "json")
    logs.write(HoldChanged(HoldKind.FREEZE, None, None, None, "ann"))
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["kind"], line["actor"]) == ("hold.changed", "freeze", "ann")
    assert not {"project", "tag", "until", "trace_id"} & set(line)


def test_an_observation_without_a_level_is_not_logged(capsys: pytest.CaptureFixture[str]) -> None:
    """O-05: it is for metrics and traces only."""
    logs.configure("debug", "json")
    logs.write(FeedRead(0.0))
    assert capsys.readouterr().err == ""


def test_clients_do_not_log_the_answers_they_get(capsys: pytest.CaptureFixture[str]) -> None:
    """X-12: at level debug the Kubernetes client would log every secret in them."""
    logs.configure("debug", "json")
    logging.getLogger("kubernetes.client.rest").debug("response body: c2VjcmV0")
    assert capsys.readouterr().err == ""

"""What stands in a log line."""

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
def test_an_instant_is_written_as_everywhere_else(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    """O-05: RFC 3339 in UTC, not what Python calls it."""
    logs.configure("info", form)
    until = datetime(2026, 3, 2, 8, 0, 2, tzinfo=UTC)
    logs.write(TriggerQuarantined(TriggerKey("a", "b", "c", "d"), "01KJ", until, "cannot be read"))
    line = capsys.readouterr().err
    assert "2026-03-02T08:00:02Z" in line
    assert "a/b/c/d" in line
    assert "datetime" not in line
    if form == "json":
        assert {"event", "trigger", "trigger_id", "until", "error"} <= set(json.loads(line))


def test_what_is_none_gets_no_key(capsys: pytest.CaptureFixture[str]) -> None:
    """O-05: a freeze of everything names no project and has no end."""
    logs.configure("info", "json")
    logs.write(HoldChanged(HoldKind.FREEZE, None, None, None, "ann"))
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["kind"], line["actor"]) == ("hold.changed", "freeze", "ann")
    assert not {"project", "tag", "until", "trace_id"} & set(line)


def test_what_nobody_reads_gets_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    """O-05: it is for metrics and traces alone."""
    logs.configure("debug", "json")
    logs.write(FeedRead(0.0))
    assert capsys.readouterr().err == ""


def test_no_client_writes_what_it_was_answered(capsys: pytest.CaptureFixture[str]) -> None:
    """X-12: the Kubernetes client would, with every secret in it, where everything is logged."""
    logs.configure("debug", "json")
    logging.getLogger("kubernetes.client.rest").debug("response body: c2VjcmV0")
    assert capsys.readouterr().err == ""

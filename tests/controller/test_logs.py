"""What stands in a log line."""

import json
import logging
from datetime import UTC, datetime

import pytest

from controller import logs


@pytest.mark.parametrize("form", ["text", "json"])
def test_an_instant_is_written_as_everywhere_else(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    """O-05: RFC 3339 in UTC, not what Python calls it."""
    logs.configure("info", form)
    logs.subscriber(
        "run.retried", {"trigger": "a/b/c/d", "at": datetime(2026, 3, 2, 8, 0, 2, tzinfo=UTC), "error": None}
    )
    line = capsys.readouterr().err
    assert "2026-03-02T08:00:02Z" in line
    assert "datetime" not in line
    if form == "json":
        assert {"event", "trigger", "at"} <= set(json.loads(line))


def test_no_client_writes_what_it_was_answered(capsys: pytest.CaptureFixture[str]) -> None:
    """X-12: the Kubernetes client would, with every secret in it, where everything is logged."""
    logs.configure("debug", "json")
    logging.getLogger("kubernetes.client.rest").debug("response body: c2VjcmV0")
    assert capsys.readouterr().err == ""

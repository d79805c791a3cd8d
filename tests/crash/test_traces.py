"""What a running controller sends to a collector, and what it does without one."""

import json
from datetime import datetime, timedelta
from pathlib import Path

import httpx

from revisions.store.runs import Run
from tests.controller.asking import IS_NEW, T, manifest
from tests.crash.collector import Collector
from tests.crash.site import Controller, Site
from tests.waiting import PATIENCE

TOLD = """echo "{\\"told\\": \\"$TRACEPARENT\\"}" >"$TRIGGERCTL_OUTPUT"; exit 0"""
ROUTE = "/api/v1/triggers/{project}/{domain}/{task}/{name}"
BUILD = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def has_loaded_the_protocol(controller: Controller) -> bool:
    """Its compiled messages are among the files that a process has mapped."""
    return "/google/" in Path(f"/proc/{controller.process.pid}/maps").read_text()


def fired(site: Site, url: str) -> Run:
    """A run that somebody asked for over HTTP, once it is over."""
    with httpx.Client(base_url=f"{url}/api/v1", headers={"traceparent": BUILD}, timeout=PATIENCE) as client:
        never = {"at": "2060-01-01T00:00:00Z"}
        assert client.put(T, json=manifest(schedule=never), headers=IS_NEW).status_code == 201
        run_id = client.post(f"{T}/fire").json()["id"]
    return site.ended(run_id)


def test_a_collector_gets_the_whole_trace(sqlite_site: Site) -> None:
    """O-04: OTLP over HTTP, down to what the task was told, and up to whoever asked; a stop sends the rest."""
    with Collector() as collector:
        sqlite_site.register(TOLD)
        controller = sqlite_site.up(TRACING_URL=collector.url)
        run = fired(sqlite_site, controller.url)
        assert has_loaded_the_protocol(controller)
        assert controller.stop() == 0
    [attempt], [over], [asked] = (collector.named(name) for name in ("attempt", "run", f"POST {ROUTE}/fire"))
    told = f"00-{attempt.trace_id.hex()}-{attempt.span_id.hex()}-01"
    assert json.loads(run.output or "") == {"told": told}
    assert attempt.trace_id.hex() == BUILD[3:35]
    assert [span.parent_span_id for span in (attempt, over)] == [over.span_id, asked.span_id]
    assert asked.parent_span_id.hex() == BUILD[36:52]
    assert {span.name for span in collector.spans} >= {"change", "launch", "settle"}
    assert {sent["service.name"] for sent in collector.resources} == {"triggerctl"}
    assert [line["trace_id"] for line in controller.said("run.settled")] == [BUILD[3:35]]


def test_a_collector_that_never_answers_holds_nothing_up(sqlite_site: Site) -> None:
    """O-04: runs run, and the stop gives it three seconds, not the thirty that its library would."""
    with Collector(silent=True) as collector:
        sqlite_site.register(TOLD)
        controller = sqlite_site.up(TRACING_URL=collector.url, OTEL_EXPORTER_OTLP_TIMEOUT="3600")
        assert fired(sqlite_site, controller.url).status == "succeeded"
        assert controller.stop() == 0
    began, over = (controller.until(event)["timestamp"] for event in ("controller.stopping", "controller.stopped"))
    assert datetime.fromisoformat(over) - datetime.fromisoformat(began) < timedelta(seconds=25)


def test_without_a_collector_nothing_of_it_is_loaded(sqlite_site: Site) -> None:
    """O-04: who keeps no traces pays nothing for them; who asked is passed on to the task as he came."""
    sqlite_site.register(TOLD)
    controller = sqlite_site.up()
    run = fired(sqlite_site, controller.url)
    assert json.loads(run.output or "") == {"told": BUILD}
    assert not has_loaded_the_protocol(controller)

"""Traces that a running controller sends to a collector, and its behaviour without one."""

import json
from datetime import datetime, timedelta
from pathlib import Path

import httpx

from revisions.store.runs import Run
from tests.controller.asking import IS_NEW, T, manifest
from tests.crash.collector import Collector
from tests.crash.site import Controller, Site
from tests.waiting import PATIENCE

WRITE_TRACEPARENT = """echo "{\\"traceparent\\": \\"$TRACEPARENT\\"}" >"$TRIGGERCTL_OUTPUT"; exit 0"""
ROUTE = "/api/v1/triggers/{project}/{domain}/{task}/{name}"
CALLER_TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def has_loaded_protobuf(controller: Controller) -> bool:
    """Return True if protobuf's compiled module is among the files that the process has mapped."""
    return "/google/" in Path(f"/proc/{controller.process.pid}/maps").read_text()


def fire_over_http(site: Site, url: str) -> Run:
    """Fire a run over HTTP as a traced caller, and return it once it has ended."""
    with httpx.Client(base_url=f"{url}/api/v1", headers={"traceparent": CALLER_TRACE}, timeout=PATIENCE) as client:
        never = {"at": "2060-01-01T00:00:00Z"}
        assert client.put(T, json=manifest(schedule=never), headers=IS_NEW).status_code == 201
        run_id = client.post(f"{T}/fire").json()["id"]
    return site.wait_for_end(run_id)


def test_a_collector_gets_the_trace_from_caller_to_task(sqlite_site: Site) -> None:
    """O-04: it is sent as OTLP over HTTP, and stopping the controller sends the rest."""
    with Collector() as collector:
        sqlite_site.register(WRITE_TRACEPARENT)
        controller = sqlite_site.up(TRACING_URL=collector.url)
        run = fire_over_http(sqlite_site, controller.url)
        assert has_loaded_protobuf(controller)
        assert controller.stop() == 0
    [attempt], [run_span], [request] = (collector.named(name) for name in ("attempt", "run", f"POST {ROUTE}/fire"))
    traceparent = f"00-{attempt.trace_id.hex()}-{attempt.span_id.hex()}-01"
    assert json.loads(run.output or "") == {"traceparent": traceparent}
    assert attempt.trace_id.hex() == CALLER_TRACE[3:35]
    assert [span.parent_span_id for span in (attempt, run_span)] == [run_span.span_id, request.span_id]
    assert request.parent_span_id.hex() == CALLER_TRACE[36:52]
    assert {span.name for span in collector.spans} >= {"change", "launch", "settle"}
    assert {resource["service.name"] for resource in collector.resources} == {"triggerctl"}
    assert [line["trace_id"] for line in controller.events("run.settled")] == [CALLER_TRACE[3:35]]


def test_a_collector_that_never_answers_delays_neither_runs_nor_the_stop(sqlite_site: Site) -> None:
    """O-04: the stop waits three seconds for it, not the thirty of its library."""
    with Collector(silent=True) as collector:
        sqlite_site.register(WRITE_TRACEPARENT)
        controller = sqlite_site.up(TRACING_URL=collector.url, OTEL_EXPORTER_OTLP_TIMEOUT="3600")
        assert fire_over_http(sqlite_site, controller.url).status == "succeeded"
        assert controller.stop() == 0
    stopping, stopped = (
        controller.wait_for(event)["timestamp"] for event in ("controller.stopping", "controller.stopped")
    )
    assert datetime.fromisoformat(stopped) - datetime.fromisoformat(stopping) < timedelta(seconds=25)


def test_without_a_collector_no_exporter_is_loaded(sqlite_site: Site) -> None:
    """O-04: the caller's trace is passed on to the task unchanged."""
    sqlite_site.register(WRITE_TRACEPARENT)
    controller = sqlite_site.up()
    run = fire_over_http(sqlite_site, controller.url)
    assert json.loads(run.output or "") == {"traceparent": CALLER_TRACE}
    assert not has_loaded_protobuf(controller)

"""Audits and explanations over HTTP."""

from datetime import timedelta

import pytest
from sqlalchemy import delete

from reconcile.loop.loop import Loop
from revisions.clock import HandClock
from revisions.store.database import Database
from revisions.store.run_tables import runs
from tests.controller.asking import NAME, Api, T, at
from tests.world import World

BEGINNING = "2026-03-02T08:00:00Z"


@pytest.fixture
def loop(database: Database, clock: HandClock) -> Loop:
    return World(database, clock).loop


@pytest.fixture(autouse=True)
def _history(api: Api, loop: Loop, clock: HandClock) -> None:
    """Let the trigger miss nine minutes, run once, skip a minute while that run goes on, and be inactive for two."""
    api.create()
    clock.advance(timedelta(minutes=10, seconds=5))
    loop.resync()
    clock.advance(timedelta(minutes=1))
    loop.resync()
    api.post(f"{T}/deactivate", {"reason": "quiet"}, at(1))
    clock.advance(timedelta(minutes=2))


def test_the_shape_of_an_audit(api: Api) -> None:
    """U-07: bounds, summary by kind and cause, and each occurrence with its run or skip."""
    audit = api.get(f"{T}/audit", **{"from": BEGINNING}).json()
    run = api.get("/runs").json()["items"][0]
    assert {name: value for name, value in audit.items() if name != "items"} == {
        "trigger": NAME,
        "from": BEGINNING,
        "to": "2026-03-02T08:13:05Z",
        "summary": {
            "clean": True,
            "on_time": 1,
            "late": 0,
            "skipped": 10,
            "inactive": 2,
            "undecided": 0,
            "not_kept": 0,
            "missing": 0,
            "unexpected": 0,
            "causes": [
                {"outcome": "concurrency", "reason": "", "count": 1},
                {"outcome": "missed", "reason": "", "count": 9},
            ],
        },
        "next_cursor": None,
    }
    assert [item["kind"] for item in audit["items"]] == ["skipped"] * 9 + ["on_time", "skipped", "inactive", "inactive"]
    assert audit["items"][0] == {
        "occurrence_id": "every/2026-03-02T08:01:00Z",
        "scheduled_at": "2026-03-02T08:01:00Z",
        "kind": "skipped",
        "outcome": "missed",
        "reason": "",
        "revision": 1,
        "run_id": None,
        "decided_at": "2026-03-02T08:10:05Z",
    }
    assert (audit["items"][9]["run_id"], audit["items"][9]["outcome"]) == (run["id"], None)
    assert (audit["items"][12]["reason"], audit["items"][12]["revision"]) == ("deactivated", 2)


def test_an_audit_in_pages(api: Api) -> None:
    """U-07: as other lists; only the first page has the summary, which covers the whole period."""
    whole = api.get(f"{T}/audit", **{"from": BEGINNING}).json()["items"]
    items, cursor, summaries = [], None, []
    while True:
        query = {"from": BEGINNING, "limit": 5} | ({"cursor": cursor} if cursor else {})
        page = api.get(f"{T}/audit", **query).json()
        items += page["items"]
        summaries.append(page["summary"] is not None)
        cursor = page["next_cursor"]
        if cursor is None:
            break
        assert len(page["items"]) == 5
    assert items == whole
    assert summaries == [True, False, False]


def test_from_is_inclusive_and_to_exclusive(api: Api) -> None:
    """U-07: the period of an audit."""
    audit = api.get(f"{T}/audit", **{"from": "2026-03-02T08:10:00Z", "to": "2026-03-02T08:12:00Z"}).json()
    assert [item["scheduled_at"][14:16] for item in audit["items"]] == ["10", "11"]


def test_a_missing_run_makes_an_audit_unclean(api: Api, database: Database) -> None:
    """U-07: a run that was removed from the table."""
    with database.write() as connection:
        connection.execute(delete(runs))
    audit = api.get(f"{T}/audit", **{"from": BEGINNING}).json()
    assert (audit["summary"]["clean"], audit["summary"]["missing"]) == (False, 1)


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ({}, "from"),
        ({"from": "yesterday"}, "from"),
        ({"from": BEGINNING, "to": "soon"}, "to"),
        ({"from": BEGINNING, "to": BEGINNING}, "from"),
        ({"from": "2027-01-01T00:00:00Z"}, "from"),
        ({"from": BEGINNING, "cursor": "x"}, "cursor"),
        ({"from": BEGINNING, "cursor": "WyJub3ciLCAieCJd"}, "cursor"),
        ({"from": BEGINNING, "until": BEGINNING}, "until"),
    ],
)
def test_an_invalid_audit_request_is_refused(api: Api, query: dict[str, str], path: str) -> None:
    """U-07: the error names the parameter."""
    answer = api.get(f"{T}/audit", **query)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert path in answer.json()["detail"]


def test_an_unknown_trigger_is_not_found(api: Api) -> None:
    """U-03, U-07: for audit and explanation."""
    assert api.get(f"{T}-x/audit", **{"from": BEGINNING}).status_code == 404
    assert api.get(f"{T}-x/explain").status_code == 404


def test_the_shape_of_an_explanation(api: Api) -> None:
    """U-03: verdict, sentences, and the facts behind them."""
    explanation = api.get(f"{T}/explain", at="2026-03-02T08:03:00Z").json()
    sentences = explanation.pop("sentences")
    assert sentences[0].startswith("It did not fire at 2026-03-02T08:03:00Z")
    assert explanation == {
        "trigger": NAME,
        "at": "2026-03-02T08:03:00Z",
        "verdict": "skipped",
        "in_force": {
            "revision": 1,
            "changed_at": BEGINNING,
            "changed_by": "local",
            "active": True,
            "deleted": False,
            "paused_until": None,
            "deactivated_reason": None,
        },
        "occurrence": _fire(3),
        "before": _fire(2),
        "after": _fire(4),
        "left_out": [],
        "run": None,
        "skip": api.get(f"{T}/occurrences").json()["items"][-1],
        "decided": {"watermark": "2026-03-02T08:11:05Z", "backlogs": [], "rate_waiting_since": None},
    }


def test_explanations_of_a_run_and_of_inactive_time(api: Api) -> None:
    """U-03: the run in full; inactive time with its reason; the default time is now."""
    explanation = api.get(f"{T}/explain", at="2026-03-02T08:10:00Z").json()
    assert (explanation["verdict"], explanation["run"]) == ("started", api.get("/runs").json()["items"][0])
    explanation = api.get(f"{T}/explain").json()
    assert (explanation["verdict"], explanation["at"]) == ("inactive", "2026-03-02T08:13:05Z")
    assert explanation["in_force"]["deactivated_reason"] == "quiet"
    assert api.get(f"{T}/explain", at="2026-03-02T07:00:00Z").json()["in_force"] is None


def _fire(minute: int) -> dict[str, str]:
    at = f"2026-03-02T08:{minute:02}:00Z"
    return {"id": f"every/{at}", "utc": at, "local": at}

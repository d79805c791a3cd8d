"""Every case of tests/cases, the facts of the field under our own rules (S-10, S-11)."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reconcile.schedule import fires
from tests.blocks import parse

CASES = Path(__file__).parents[2] / "cases"


def cases(name: str) -> list[dict[str, Any]]:
    with (CASES / f"{name}.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def text(at: datetime) -> str:
    return at.isoformat()[:19] + "Z"


def cron_schedule(case: dict[str, Any]) -> fires.Schedule:
    return parse({"cron": case["expr"], "timezone": case["timezone"], "gap": case["gap"], "fold": case["fold"]})


# By the first letters of the case ids, which name where a case comes from.
SOURCES = ["cronos", "zone", "robfig", "cronsim", "other"]


def of_source(source: str) -> list[dict[str, Any]]:
    return [case for case in cases("cron") if source == next((s for s in SOURCES if case["id"].startswith(s)), "other")]


@pytest.mark.parametrize("source", SOURCES)
def test_the_next_fires_of_every_cron_case(source: str) -> None:
    """S-10: every case of cron.jsonl fires at the instants it expects, and at no others between them."""
    wrong = []
    for case in of_source(source):
        limit = max(len(case["expect"]), 1)
        found = fires.fires(cron_schedule(case), fires.instant(case["after"]), None, limit)
        if [text(fire.at) for fire in found] != case["expect"]:
            wrong.append(f"{case['id']}: {[text(fire.at) for fire in found]}, not {case['expect']}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("source", SOURCES)
def test_every_cron_case_backwards(source: str) -> None:
    """S-10: walking backwards through every case of cron.jsonl meets the same fires, and counting counts them."""
    for case in of_source(source):
        due, after = cron_schedule(case), fires.instant(case["after"])
        expected = [fires.instant(at) for at in case["expect"]]
        until, met = (expected[-1] if expected else after + timedelta(days=1000)), []
        assert fires.count(due, after, until, 1000) == len(expected), case["id"]
        while (newest := fires.last(due, after, until)) is not None:
            met.append(newest)
            until = newest.at - timedelta(microseconds=1)
        assert [fire.at for fire in reversed(met)] == expected, case["id"]
        assert list(reversed(met)) == fires.fires(due, after, None, len(expected)), case["id"]


def test_the_case_files_are_whole() -> None:
    """S-10: none of the cases got lost on the way here."""
    sizes = {name: len(cases(name)) for name in ("cron", "validity", "timezones", "intervals")}
    assert sizes == {"cron": 526, "validity": 117, "timezones": 7, "intervals": 25}
    assert sum(len(of_source(source)) for source in SOURCES) == 526


def refusal(block: dict[str, str]) -> fires.ScheduleError | None:
    try:
        parse(block)
    except fires.ScheduleError as error:
        return error
    return None


def test_every_expression_is_accepted_or_refused_as_listed() -> None:
    """S-02: what validity.jsonl calls invalid is refused at `cron` or never fires, and nothing else is."""
    for case in cases("validity"):
        block = {"cron": case["expr"]}
        error = refusal(block)
        if error is None:
            never = fires.never_fires(parse(block), datetime(2026, 1, 1, tzinfo=UTC))
            assert never != case["valid"], f"{case['expr']!r}: {case['why']}"
        else:
            assert not case["valid"], f"{case['expr']!r}: {error}"
            assert error.path == "cron", case["expr"]
            assert error.hint, f"{case['expr']!r} is refused without a way out"


def test_every_zone_is_accepted_or_refused_as_listed() -> None:
    """S-02: timezones.jsonl; only names of the tz database are zones."""
    for case in cases("timezones"):
        error = refusal({"cron": "@daily", "timezone": case["timezone"]})
        assert (error is None) == case["valid"], case
        assert error is None or error.path == "timezone", case


@pytest.mark.parametrize("case", cases("intervals"), ids=lambda case: case["id"])
def test_the_slots_of_every_interval_case(case: dict[str, Any]) -> None:
    """S-06: every case of intervals.jsonl; slots are anchor + k·every, whenever somebody looks."""
    due = parse({"every": f"{case['every_seconds']}s", "anchor": case["anchor"]})
    now, anchor = fires.instant(case["now"]), fires.instant(case["anchor"])
    since = fires.instant(case["last_fired"]) if case["last_fired"] else anchor - timedelta(microseconds=1)
    assert [text(fire.at) for fire in fires.fires(due, now, None, 5)] == case["expected_next"]
    assert fires.count(due, since, now, 10**9) == case["missed_count"]
    oldest, newest = fires.fires(due, since, now, 1), fires.last(due, since, now)
    assert (text(oldest[0].at) if oldest else None) == case["first_missed"]
    assert (text(newest.at) if newest else None) == case["last_missed"]

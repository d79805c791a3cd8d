"""Zones from the packaged database, and the spans of constant offset made of them (S-14)."""

import struct
import zoneinfo
from datetime import UTC, datetime
from importlib import resources
from itertools import pairwise

import pytest
import tzdata  # type: ignore[import-untyped]  # ships no types

from reconcile.schedule import fires, zones
from revisions.spec.notation import ScheduleError
from tests.blocks import parse


def turns(name: str) -> list[tuple[int, int, int]]:
    """(instant, offset before, offset after) of every change in a zone's file, read by hand (RFC 8536)."""
    data = resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()

    def header(at: int) -> tuple[int, ...]:
        return struct.unpack(">6l", data[at + 20 : at + 44])

    isut, isstd, leaps, times, types, chars = header(0)
    second = 44 + times * 5 + types * 6 + chars + leaps * 8 + isstd + isut
    _, _, _, times, types, _ = header(second)
    at = second + 44
    instants = struct.unpack(f">{times}q", data[at : at + 8 * times])
    kinds = data[at + 8 * times : at + 9 * times]
    table = at + 9 * times
    offsets = [struct.unpack(">l", data[table + 6 * kind : table + 6 * kind + 4])[0] for kind in (0, *kinds)]
    steps = zip(instants, pairwise(offsets), strict=True)
    return [(instant, before, after) for instant, (before, after) in steps if before != after]


def test_only_the_packaged_database_is_read() -> None:
    """S-14: no zone comes from the host's files, and the version is the package's."""
    assert zoneinfo.TZPATH == ()
    assert fires.TZDATA_VERSION == zones.TZDATA_VERSION == tzdata.IANA_VERSION


def test_no_zone_changes_and_changes_back_between_two_probes() -> None:
    """S-14: the probes are closer together than any two changes that could cancel out, in every zone."""
    shortest = min(
        second - first
        for name in zones.names()
        for (first, before, _), (second, _, after) in pairwise(turns(name))
        if before == after
    )
    assert shortest > zones.PROBE_SECONDS


@pytest.mark.parametrize(
    "name",
    ["Europe/Berlin", "Africa/Casablanca", "Pacific/Apia", "Asia/Gaza", "Antarctica/Troll", "Africa/Monrovia"],
)
def test_spans_are_those_of_the_file(name: str) -> None:
    """S-03: each change of a zone's clock begins a span, with what was skipped or is repeated."""
    for at, before, after in turns(name):
        span = zones.span_at(name, at)
        assert (span.start, span.offset, span.fresh) == (at, after, at + before)
        assert zones.span_at(name, at - 1).offset == before
        assert zones.span_at(name, at - 1).end == at


def test_spans_follow_one_another_and_know_second_passes() -> None:
    """S-04: over two years, every half hour lies in one span, which knows whether the clock shows it again."""
    start = int(fires.instant("2025-09-20T00:00:00Z").timestamp())
    for name in ("Europe/Berlin", "Africa/Casablanca"):
        here = zones.zone(name)
        for at in range(start, start + 730 * 86400, 1800):
            span, local = zones.span_at(name, at), datetime.fromtimestamp(at, here)
            assert span.start <= at < span.end
            assert (at + span.offset < span.fresh) == bool(local.fold)


@pytest.mark.parametrize("turn", ["2026-10-25T01:00:00Z", "2026-03-29T01:00:00Z"])
def test_a_stretch_that_ends_just_after_a_change_changes_nothing(turn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """S-04: where the years are cut within an hour of a change, second passes and gaps stay what they are."""
    at = int(fires.instant(turn).timestamp())
    probe = next(probe for probe in range(340_000, 350_000) if 0 < -at % (91 * probe) < 3000)
    cut = at + -at % (91 * probe)
    due = parse({"cron": "*/5 1,2,3 * * *", "timezone": "Europe/Berlin", "gap": "shift"})
    after, until = datetime.fromtimestamp(at - 7200, UTC), datetime.fromtimestamp(at + 7200, UTC)
    expected = fires.fires(due, after, until, 999)
    monkeypatch.setattr(zones, "PROBE_SECONDS", probe)
    monkeypatch.setattr(zones, "_BLOCK_SECONDS", 91 * probe)
    zones._spans.cache_clear()
    try:
        assert zones.span_at("Europe/Berlin", cut).start == cut
        assert fires.fires(due, after, until, 999) == expected
        assert fires.last(due, after, until) == expected[-1]
        assert fires.count(due, after, until, 999) == len(expected)
    finally:
        zones._spans.cache_clear()


def test_a_misspelt_zone_is_refused_with_the_nearest_name() -> None:
    """S-02: an unknown zone is refused, saying which was perhaps meant."""
    with pytest.raises(ScheduleError) as caught:
        zones.zone("europe/berln")
    assert caught.value.path == "timezone"
    assert caught.value.hint == "did you mean Europe/Berlin?"
    with pytest.raises(ScheduleError):
        zones.zone(7)


def test_sub_minute_offsets_of_old_clocks_are_kept() -> None:
    """S-03: Monrovia's clock lay 44 min 30 s behind until 1972; a wall time then is right to the second."""
    due = parse({"cron": "0 12 * * *", "timezone": "Africa/Monrovia"})
    after = datetime(1971, 6, 1, tzinfo=UTC)
    assert fires.fires(due, after, None, 1)[0].at == datetime(1971, 6, 1, 12, 44, 30, tzinfo=UTC)

"""Deciding all undecided occurrences of a trigger: which start, which are skipped, which wait for catch-up."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from reconcile.decide import catchup
from reconcile.decide.blackouts import Blackout
from reconcile.decide.catchup import MOST_DEFERRED, CatchupPlan, Situation
from reconcile.decide.terms import Terms, overlap_of
from reconcile.schedule.fires import Fire, Schedule, fires
from reconcile.schedule.ranges import Range
from revisions.outcomes import HoldMode
from tests.blocks import parse, trigger_spec

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
GRACE = timedelta(seconds=60)
MOMENT = timedelta(microseconds=1)
MINUTE = 1 / 60
"""A minute in hours, the unit of all tables here."""
SECOND = MINUTE / 60
Skip = tuple[float, float, int | None, str, str]


def at(hour: float) -> datetime:
    """The instant so many hours after the start."""
    return START + timedelta(seconds=round(hour * 3600, 6))


def hour_of(instant: datetime) -> float:
    return round((instant - START) / timedelta(hours=1), 6)


def schedule_of(every: str = "1h", **bounds: Any) -> Schedule:
    return parse({"every": every, **bounds})


def terms_of(
    policy: str = "latest", overlap: str = "allow", window: float | None = None, schedule: Schedule | None = None
) -> Terms:
    """The terms of a trigger that fires each hour, with a catch-up window in hours."""
    catchup: dict[str, Any] = {"policy": policy}
    if window is not None:
        catchup["window"] = f"{window * 3600:g}s"
    spec = trigger_spec(overlap=overlap, catchup=catchup, retry={"max_attempts": 1})
    return Terms(
        spec=spec,
        schedule=schedule or schedule_of(),
        overlap=overlap_of(spec),
        input="{}",
        budget=None,
        expires_at=None,
    )


def situation(now: float, **more: Any) -> Situation:
    return Situation(now=at(now), live_grace=GRACE, **more)


def blackout(begins: float, ends: float, mode: HoldMode = HoldMode.DROP) -> Blackout:
    return Blackout(at(begins), at(ends), mode)


def asked_fire(hour: float) -> Fire:
    return Fire(at(hour), "next/run", at(hour))


def started(plan: CatchupPlan) -> list[float]:
    return [hour_of(fire.at) for fire in plan.starts]


def skipped(ranges: Sequence[Range]) -> list[Skip]:
    return [(hour_of(one.first.at), hour_of(one.until), one.count, one.outcome, one.reason) for one in ranges]


def missed(first: float, last: float, count: int, reason: str = "") -> Skip:
    return (first, last, count, "missed", reason)


@pytest.mark.parametrize(
    ("policy", "now", "starts", "skips", "then"),
    [
        pytest.param("latest", 0.5, [], [], [], id="latest: nothing is due"),
        pytest.param("latest", 1, [1], [], [], id="latest: one is due"),
        pytest.param("latest", 3.5, [3], [], [missed(1, 2, 2)], id="latest: the newest of three"),
        pytest.param("none", 3 + MINUTE, [3], [], [missed(1, 2, 2)], id="none: as old as live_grace"),
        pytest.param("none", 3 + MINUTE + SECOND, [], [missed(1, 3, 3)], [], id="none: older than live_grace"),
        pytest.param("all", 3 + MINUTE, [3], [], [], id="all: as old as live_grace"),
        pytest.param("all", 3 + MINUTE + SECOND, [], [], [], id="all: older than live_grace"),
    ],
)
def test_the_policy_decides_what_of_the_missed_time_starts(
    policy: str, now: float, starts: list[float], skips: list[Skip], then: list[Skip]
) -> None:
    """L-06: `latest` starts the newest, `none` only what is live, `all` what is live beside a backlog."""
    made = catchup.plan(terms_of(policy), at(0), situation(now))
    assert started(made) == starts
    assert skipped(made.skips) == skips
    assert skipped(made.then) == then
    assert made.watermark == at(now)


@pytest.mark.parametrize("policy", ["latest", "none"])
def test_what_starts_wants_a_token(policy: str) -> None:
    """L-10: without one nothing of the missed time is decided."""
    made = catchup.plan(terms_of(policy), at(0), situation(3))
    assert (started(made), made.granted(0).starts, made.granted(0).watermark) == ([3], (), at(0))


@pytest.mark.parametrize(
    ("now", "backlog", "base"),
    [
        pytest.param(0.5, None, at(0.5 - MINUTE) - MOMENT, id="nothing missed"),
        pytest.param(1, None, at(1 - MINUTE) - MOMENT, id="one live"),
        pytest.param(3, (at(0), at(2)), at(3 - MINUTE) - MOMENT, id="two missed, one live"),
        pytest.param(3 + MINUTE, (at(0), at(2)), at(3) - MOMENT, id="the last one is barely live"),
        pytest.param(3.5, (at(0), at(3)), at(3.5 - MINUTE) - MOMENT, id="three missed"),
        pytest.param(SECOND, None, at(0), id="all time since the watermark is live"),
    ],
)
def test_policy_all_stores_the_missed_range_as_a_backlog(
    now: float, backlog: tuple[datetime, datetime] | None, base: datetime
) -> None:
    """L-06: up to the newest missed occurrence; live ones are not part of it."""
    made = catchup.plan(terms_of("all"), at(0), situation(now))
    assert made.backlog == backlog
    assert (made.base if made.starts else made.watermark) == (base if made.starts else at(now))
    assert made.skips == ()


@pytest.mark.parametrize(
    ("window", "starts"),
    [
        pytest.param(None, [3], id="no window"),
        pytest.param(0.5, [3], id="as old as the window"),
        pytest.param(0.5 - SECOND, [], id="older than the window"),
    ],
)
def test_latest_gives_up_what_is_older_than_the_window(window: float | None, starts: list[float]) -> None:
    """L-06: half an hour late, under windows about as long."""
    made = catchup.plan(terms_of("latest", window=window), at(0), situation(3.5))
    assert started(made) == starts
    assert skipped((*made.skips, *made.then)) == ([missed(1, 2, 2)] if starts else [missed(1, 3, 3)])


def test_the_window_is_of_latest_alone() -> None:
    """L-06: under `none` live_grace is the bound, however short the window."""
    made = catchup.plan(terms_of("none", window=SECOND), at(0), situation(1 + MINUTE))
    assert started(made) == [1]


@pytest.mark.parametrize(
    ("watermark", "now", "ahead"),
    [
        pytest.param(0, 0.5, 1, id="nothing due"),
        pytest.param(0, 1, 2, id="one due"),
        pytest.param(0, 2, None, id="two due"),
    ],
)
def test_planning_names_the_next_fire_where_it_came_by_it(watermark: float, now: float, ahead: float | None) -> None:
    """L-02: the alarm is set from it; after more than one due occurrence the next fire is looked up apart."""
    made = catchup.plan(terms_of(), at(watermark), situation(now))
    assert (hour_of(made.ahead.at) if made.ahead else None) == ahead


def test_a_schedule_that_is_over_leaves_nothing_ahead() -> None:
    """S-07: after the last occurrence there is no next fire, before it the last one."""
    terms = terms_of(schedule=schedule_of(until="2026-03-02T09:00:00Z"))
    assert started(catchup.plan(terms, at(0), situation(1))) == [1]
    over = catchup.plan(terms, at(1), situation(2))
    assert (over.starts, over.ahead, over.watermark) == ((), None, at(2))


@pytest.mark.parametrize("watermark", [pytest.param(1, id="at now"), pytest.param(2, id="ahead of now")])
def test_a_watermark_that_is_not_behind_stays(watermark: float) -> None:
    """L-12: time that is decided is not decided again, whatever else is the case."""
    made = catchup.plan(terms_of(), at(watermark), situation(1, denied="no", asked=asked_fire(0.5)))
    assert made == CatchupPlan((), at(watermark), (), (), at(watermark))


@pytest.mark.parametrize(
    ("overlap", "live", "starts", "skips"),
    [
        pytest.param("allow", 9, [2], [], id="allow"),
        pytest.param("skip", 0, [2], [], id="skip, nothing goes on"),
        pytest.param("skip", 1, [], [(2, 2, 1, "concurrency", "")], id="skip, one goes on"),
        pytest.param("queue_one", 1, [2], [], id="queue_one, one goes on"),
        pytest.param("queue_one", 2, [], [(2, 2, 1, "concurrency", "")], id="queue_one, one waits already"),
        pytest.param("queue_all", 9, [2], [], id="queue_all"),
        pytest.param("cancel", 9, [2], [], id="cancel"),
        pytest.param("terminate", 9, [2], [], id="terminate"),
    ],
)
def test_the_overlap_policy_bounds_what_starts(overlap: str, live: int, starts: list[float], skips: list[Skip]) -> None:
    """X-09: what finds no room is skipped as `concurrency`."""
    made = catchup.plan(terms_of(overlap=overlap), at(1), situation(2, live=live))
    assert started(made) == starts
    assert skipped(made.skips) == skips
    assert made.watermark == at(2)


TWENTY_SECONDS = schedule_of("20s")


@pytest.mark.parametrize(
    ("overlap", "more", "starts", "then"),
    [
        pytest.param("allow", {}, 3, [], id="room for all"),
        pytest.param("cancel", {}, 1, [("concurrency", "", 2)], id="displacing: the newest"),
        pytest.param("skip", {}, 1, [("concurrency", "", 2)], id="skip: the oldest"),
        pytest.param("allow", {"affordable": 2}, 2, [("budget", "", 1)], id="budget buys two"),
        pytest.param("allow", {"wanted": 1}, 1, [("concurrency", "max_runs", 2)], id="one success is wanted"),
        pytest.param(
            "queue_one",
            {"wanted": 1, "affordable": 1},
            1,
            [("concurrency", "max_runs", 1), ("concurrency", "", 1)],
            id="each limit skips with its own reason",
        ),
        pytest.param("allow", {"remaining": 2}, 2, [], id="two may still start"),
        pytest.param("allow", {"remaining": 3}, 3, [], id="as many may start as are due"),
    ],
)
def test_of_several_live_ones_each_limit_takes_its_part(
    overlap: str, more: dict[str, Any], starts: int, then: list[tuple[str, str, int]]
) -> None:
    """X-08, X-09, S-07: three are live at once; the first limits keep the oldest, displacing policies the newest."""
    due = fires(TWENTY_SECONDS, at(0), at(MINUTE), 9)
    made = catchup.plan(terms_of("all", overlap, schedule=TWENTY_SECONDS), at(0), situation(MINUTE, **more))
    assert list(made.starts) == (due[-1:] if overlap == "cancel" else due[:starts])
    assert [(one.outcome, one.reason, one.count) for one in made.then] == then
    assert (made.skips, made.base, made.watermark) == ((), at(0), at(MINUTE))


@pytest.mark.parametrize(
    ("more", "outcome", "reason"),
    [
        pytest.param({"affordable": 0}, "budget", "", id="budget used up"),
        pytest.param({"wanted": 0}, "concurrency", "max_runs", id="enough may succeed"),
    ],
)
def test_where_nothing_can_start_the_skip_is_decided_at_once(more: dict[str, Any], outcome: str, reason: str) -> None:
    """X-08: it does not wait for a token."""
    made = catchup.plan(terms_of(), at(0), situation(2, **more))
    assert started(made) == []
    assert skipped(made.skips) == [missed(1, 1, 1), (2, 2, 1, outcome, reason)]
    assert (made.then, made.watermark) == ((), at(2))


def test_a_used_up_count_decides_time_without_skips() -> None:
    """S-07: nothing was to start any more, so nothing is recorded."""
    made = catchup.plan(terms_of(), at(0), situation(3, remaining=0, denied="no"))
    assert made == CatchupPlan((), at(3), (), (), at(3))


@pytest.mark.parametrize(
    ("waiting_since", "skips"),
    [
        pytest.param(None, [missed(1, 3, 3)], id="nothing waited for a token"),
        pytest.param(3, [missed(1, 2, 2), missed(3, 3, 1, "rate")], id="since the last one"),
        pytest.param(2 + MINUTE, [missed(1, 2, 2), missed(3, 3, 1, "rate")], id="the second was just not live"),
        pytest.param(2 + MINUTE - SECOND, [missed(1, 1, 1), missed(2, 3, 2, "rate")], id="the second was live"),
        pytest.param(0, [missed(1, 3, 3, "rate")], id="before the first"),
        pytest.param(3.5 + MINUTE, [missed(1, 3, 3)], id="only after all of them"),
    ],
)
def test_what_only_lacked_a_token_is_skipped_as_rate(waiting_since: float | None, skips: list[Skip]) -> None:
    """L-10, E-05: of occurrences that were live when the first token was refused."""
    since = None if waiting_since is None else at(waiting_since)
    made = catchup.plan(terms_of("none"), at(0), situation(3.5, rate_waiting_since=since))
    assert skipped(made.skips) == skips


def test_older_ones_that_lacked_a_token_are_skipped_as_rate_beside_the_newest() -> None:
    """L-10: under `latest` too."""
    made = catchup.plan(terms_of(), at(0), situation(3.5, rate_waiting_since=at(2)))
    assert started(made) == [3]
    assert skipped(made.then) == [missed(1, 1, 1), missed(2, 2, 1, "rate")]


def test_who_is_denied_starts_nothing_and_each_occurrence_says_why() -> None:
    """X-15: the reason stands in the record."""
    made = catchup.plan(terms_of("all"), at(0), situation(3, denied="its author is gone"))
    assert skipped(made.skips) == [(1, 3, 3, "denied", "its author is gone")]
    assert (made.starts, made.backlog, made.watermark, made.is_asked) == ((), None, at(3), False)


@pytest.mark.parametrize(
    ("asked", "skips", "is_asked"),
    [
        pytest.param(4, [], False, id="ahead"),
        pytest.param(
            2.5,
            [(1, 2, 2, "superseded", "next_fire_at"), (2.5, 2.5, 1, "denied", "no"), (3, 3, 1, "denied", "no")],
            True,
            id="due",
        ),
        pytest.param(
            3,
            [(1, 2, 2, "superseded", "next_fire_at"), (3, 3, 1, "denied", "no"), (3, 3, 1, "denied", "no")],
            True,
            id="due now",
        ),
        pytest.param(-1, [(-1, -1, 1, "denied", "no"), (1, 3, 3, "denied", "no")], True, id="before the watermark"),
    ],
)
def test_the_fire_that_a_run_asked_for_is_denied_too(asked: float, skips: list[Skip], is_asked: bool) -> None:
    """X-15, S-08: what came before it is superseded, what comes after it denied."""
    made = catchup.plan(terms_of(), at(0), situation(3, denied="no", asked=asked_fire(asked)))
    assert skipped(made.skips) == skips
    assert made.is_asked is is_asked
    assert made.watermark == (at(3) if is_asked else at(0))
    assert made.ahead == (None if is_asked else asked_fire(asked))


@pytest.mark.parametrize(
    ("asked", "policy", "starts", "skips", "watermark"),
    [
        pytest.param(4, "latest", [], [], at(0), id="ahead"),
        pytest.param(3.5, "latest", [3.5], [(1, 3, 3, "superseded", "next_fire_at")], at(3.5) - MOMENT, id="due now"),
        pytest.param(2, "latest", [2], [(1, 1, 1, "superseded", "next_fire_at")], at(2) - MOMENT, id="due before"),
        pytest.param(-1, "latest", [-1], [], at(0), id="before the watermark"),
        pytest.param(
            3.5 - MINUTE,
            "none",
            [round(3.5 - MINUTE, 6)],
            [(1, 3, 3, "superseded", "next_fire_at")],
            at(3.5 - MINUTE) - MOMENT,
            id="none: as old as live_grace",
        ),
        pytest.param(
            2,
            "none",
            [],
            [(1, 1, 1, "superseded", "next_fire_at"), (2, 2, 1, "missed", "")],
            at(2) - MOMENT,
            id="none: older than live_grace",
        ),
    ],
)
def test_the_fire_that_a_run_asked_for_stands_in_for_the_schedules(
    asked: float, policy: str, starts: list[float], skips: list[Skip], watermark: datetime
) -> None:
    """S-08: occurrences before it are superseded; those at its instant and after it are still undecided."""
    made = catchup.plan(terms_of(policy), at(0), situation(3.5, asked=asked_fire(asked)))
    assert started(made) == starts
    assert skipped(made.skips) == skips
    assert made.watermark == watermark
    assert made.is_asked is (asked <= 3.5)
    assert made.ahead == (asked_fire(asked) if asked > 3.5 else None)


def test_the_fire_that_a_run_asked_for_keeps_to_the_overlap_policy() -> None:
    """S-08, X-09: what finds no room is skipped, and that decides it."""
    made = catchup.plan(terms_of(overlap="skip"), at(0), situation(1, live=1, asked=asked_fire(0.5)))
    assert skipped(made.skips) == [(0.5, 0.5, 1, "concurrency", "")]
    assert (made.starts, made.is_asked) == ((), True)


def test_without_a_token_the_fire_that_a_run_asked_for_stays_undecided() -> None:
    """S-08, L-10: it wants a token as any start does, and waits for one; the skips before it are decided."""
    made = catchup.plan(terms_of(), at(0), situation(2.5, asked=asked_fire(2)))
    refused = made.granted(0)
    assert (refused.starts, refused.is_asked, refused.watermark) == ((), False, at(2) - MOMENT)
    assert skipped(refused.skips) == [(1, 1, 1, "superseded", "next_fire_at")]
    assert made.granted(1) == made
    assert made.granted(1).is_asked


@pytest.mark.parametrize(
    ("tokens", "starts", "watermark"),
    [
        pytest.param(0, 0, at(0), id="none"),
        pytest.param(1, 1, at(MINUTE / 3), id="one"),
        pytest.param(2, 2, at(2 * MINUTE / 3), id="two"),
    ],
)
def test_tokens_decide_a_plan_as_far_as_they_go(tokens: int, starts: int, watermark: datetime) -> None:
    """L-10: the watermark stands at the last start that got one; what was to follow all starts is not decided."""
    terms = terms_of("all", "skip", schedule=TWENTY_SECONDS)
    made = catchup.plan(terms_of("all", schedule=TWENTY_SECONDS), at(0), situation(MINUTE))
    part = made.granted(tokens)
    assert (part.starts, part.then, part.ahead) == (made.starts[:starts], (), None)
    assert (part.base, part.watermark) == (at(0), watermark)
    assert made.granted(3) is made
    assert catchup.plan(terms, at(0), situation(MINUTE)).granted(0).then == ()


def test_a_plan_is_not_ahead_of_starts_that_are_taken_from_it() -> None:
    """S-07: where fewer may start than were to, the next fire is looked up anew."""
    made = catchup.plan(terms_of(), at(0), situation(1))
    assert made.limited(None) is made
    assert made.limited(1) is made
    assert (made.limited(0).starts, made.limited(0).ahead) == ((), None)
    assert made.limited(0).watermark == made.watermark


@pytest.mark.parametrize(
    ("blackouts", "held_until"),
    [
        pytest.param([blackout(0.5, 4)], 4, id="one"),
        pytest.param([blackout(0.5, 4), blackout(2, 6)], 6, id="overlapping: the later end"),
        pytest.param([blackout(2, 6), blackout(0.5, 4)], 6, id="overlapping, whichever comes first"),
        pytest.param([blackout(2.5, 3)], 3, id="from now on"),
        pytest.param([blackout(1, 2.5), blackout(3, 4)], None, id="one over, one to come"),
    ],
)
def test_a_blackout_in_force_defers_everything(blackouts: list[Blackout], held_until: float | None) -> None:
    """S-13: nothing is decided until the last of those in force has ended."""
    made = catchup.plan(terms_of(), at(0), situation(2.5, blackouts=tuple(blackouts), denied="no"))
    assert made.held_until == (None if held_until is None else at(held_until))
    assert (made.watermark == at(0)) is (held_until is not None)
    assert bool(made.skips) is (held_until is None)


@pytest.mark.parametrize(
    ("mode", "policy", "now", "starts", "skips"),
    [
        pytest.param("drop", "latest", 2.5, [], [(1, 2, 2, "blackout", "")], id="drop"),
        pytest.param("drop", "all", 3.5, [], [(1, 2, 2, "blackout", "")], id="drop: stale, under all"),
        pytest.param("one", "latest", 2.5 + MINUTE, [2], [(1, 1, 1, "blackout", "")], id="one: the newest"),
        pytest.param("one", "none", 2.5, [2], [(1, 1, 1, "blackout", "")], id="one: fresh, under none"),
        pytest.param("one", "all", 2.9, [2], [(1, 1, 1, "blackout", "")], id="one: stale, under all"),
        pytest.param("one", "latest", 2.9, [2], [(1, 1, 1, "missed", "")], id="one: stale, under latest"),
        pytest.param("one", "none", 2.9, [], [(1, 2, 2, "missed", "")], id="one: stale, under none"),
        pytest.param("defer", "latest", 2.5 + MINUTE, [1, 2], [], id="defer: all of it"),
        pytest.param("defer", "latest", 2.9, [2], [(1, 1, 1, "missed", "")], id="defer: stale, under latest"),
    ],
)
def test_the_mode_says_what_becomes_of_a_blackouts_occurrences(
    mode: str, policy: str, now: float, starts: list[float], skips: list[Skip]
) -> None:
    """S-13: two fell into it; where it ended longer ago than live_grace, the catch-up policy has its say."""
    made = catchup.plan(terms_of(policy), at(0), situation(now, blackouts=(blackout(0.5, 2.5, HoldMode(mode)),)))
    assert started(made) == starts
    assert skipped((*made.skips, *made.then)) == skips
    assert made.granted(0).watermark == (at(0.5) - MOMENT if starts else at(now))


@pytest.mark.parametrize(
    ("remaining", "starts"), [pytest.param(1, [1], id="one may start"), pytest.param(2, [1, 2], id="two may start")]
)
def test_what_a_blackout_deferred_keeps_to_the_count(remaining: int, starts: list[float]) -> None:
    """S-07, S-13."""
    over = (blackout(0.5, 2.5, HoldMode.DEFER),)
    made = catchup.plan(terms_of(), at(0), situation(2.5, blackouts=over, remaining=remaining))
    assert started(made) == starts


def test_a_deferring_blackout_that_is_long_over_leaves_a_backlog() -> None:
    """S-13, L-06: under `all` it is caught up, not started at once."""
    made = catchup.plan(terms_of("all"), at(0), situation(2.9, blackouts=(blackout(0.5, 2.5, HoldMode.DEFER),)))
    assert (made.starts, made.backlog) == ((), (at(0.5) - MOMENT, at(2)))


def test_a_blackout_that_another_follows_is_over_when_the_last_one_is() -> None:
    """S-13: its end is judged fresh by that of the chain."""
    chain = (blackout(0.5, 1.5, HoldMode.ONE), blackout(1.5, 2.5, HoldMode.DROP))
    made = catchup.plan(terms_of("none"), at(0), situation(2.5 + MINUTE, blackouts=chain))
    assert (started(made), made.watermark) == ([1], at(1.5) - MOMENT)


def test_what_comes_after_a_piece_that_starts_something_is_left_to_the_next_pass() -> None:
    """S-13: the watermark stands at the end of the piece."""
    over = (blackout(0.5, 2.5, HoldMode.ONE),)
    made = catchup.plan(terms_of("all"), at(0), situation(2.9, blackouts=over))
    assert made.watermark == at(2.5) - MOMENT
    again = catchup.plan(terms_of("all"), made.watermark, situation(2.9, blackouts=over))
    assert (again.starts, again.watermark) == ((), at(2.9))


def test_a_blackout_without_occurrences_leaves_nothing_behind() -> None:
    """S-13: whatever its mode."""
    for mode in HoldMode:
        made = catchup.plan(terms_of(), at(0), situation(0.9, blackouts=(blackout(0.2, 0.8, mode),)))
        assert (made.starts, made.skips, made.then, made.watermark) == ((), (), (), at(0.9))


@pytest.mark.parametrize(
    ("over", "starts", "skips"),
    [
        pytest.param(blackout(1.5, 2.5), [3], [missed(1, 1, 1), (2, 2, 1, "blackout", "")], id="newer after it"),
        pytest.param(blackout(1.5, 3.2), [1], [], id="newer only inside one that drops"),
        pytest.param(blackout(1.5, 3.2, HoldMode.ONE), [3], [missed(1, 1, 1)], id="newer inside one that starts it"),
    ],
)
def test_only_what_will_start_outdoes_an_older_occurrence(
    over: Blackout, starts: list[float], skips: list[Skip]
) -> None:
    """L-06, S-13: under `latest` the newest that can start does."""
    made = catchup.plan(terms_of(), at(0), situation(3.2 + MINUTE / 2, blackouts=(over,)))
    assert (started(made), skipped(made.skips)) == (starts, skips)


def test_a_deferring_blackout_starts_a_bounded_number_in_one_pass() -> None:
    """S-13, L-08: the next pass goes on behind the last one."""
    often = schedule_of("10s")
    over = (blackout(0, 2, HoldMode.DEFER),)
    terms = terms_of(schedule=often)
    first = catchup.plan(terms, at(0), situation(2, blackouts=over))
    assert len(first.starts) == MOST_DEFERRED
    assert first.watermark == first.starts[-1].at == at(0) + MOST_DEFERRED * timedelta(seconds=10)
    rest = catchup.plan(terms, first.watermark, situation(2, blackouts=over))
    assert len(rest.starts) == 719 - MOST_DEFERRED
    assert rest.watermark == at(2) - MOMENT


@pytest.mark.parametrize(
    ("limit", "more", "starts", "watermark"),
    [
        pytest.param(2, {}, [1, 2], 2, id="the limit"),
        pytest.param(5, {}, [1, 2, 3, 4, 5], 5, id="as many as there are"),
        pytest.param(9, {}, [1, 2, 3, 4, 5], 5.5, id="more than there are"),
        pytest.param(9, {"affordable": 3}, [1, 2, 3], 3, id="what the budget buys"),
        pytest.param(9, {"wanted": 4}, [1, 2, 3, 4], 4, id="what is wanted"),
        pytest.param(9, {"remaining": 1}, [1], 1, id="what may still start"),
        pytest.param(9, {"affordable": 0}, [], 0, id="nothing is affordable"),
        pytest.param(9, {"wanted": 0}, [], 0, id="nothing is wanted"),
        pytest.param(9, {"blackouts": (blackout(5, 9),)}, [], 0, id="a blackout is in force"),
    ],
)
def test_a_backlog_is_drained_oldest_first(
    limit: int, more: dict[str, Any], starts: list[float], watermark: float
) -> None:
    """L-06, L-09: as far as the limits go; what cannot start now stays in the backlog."""
    made = catchup.drain(terms_of("all"), at(0), at(5.5), limit, situation(6, **more))
    assert started(made) == starts
    assert (made.skips, made.then, made.base, made.watermark) == ((), (), at(0), at(watermark))


@pytest.mark.parametrize(
    ("window", "given_up", "starts", "base"),
    [
        pytest.param(3, [missed(1, 2, 2)], [3, 4, 5], at(3) - MOMENT, id="what is as old as the window starts"),
        pytest.param(3 - SECOND, [missed(1, 3, 3)], [4, 5], at(3 + SECOND) - MOMENT, id="what is older does not"),
        pytest.param(0.25, [missed(1, 5, 5)], [], at(5.5), id="all of it is too old"),
        pytest.param(9, [], [1, 2, 3, 4, 5], at(0), id="nothing is too old"),
    ],
)
def test_what_lies_before_the_window_is_given_up(
    window: float, given_up: list[Skip], starts: list[float], base: datetime
) -> None:
    """L-06: with the first part that is drained."""
    made = catchup.drain(terms_of("all", window=window), at(0), at(5.5), 9, situation(6, live=1))
    assert (skipped(made.skips), started(made)) == (given_up, starts)
    assert (made.base, made.watermark) == (base if starts else at(5.5), at(5.5))


@pytest.mark.parametrize(
    ("more", "skips"),
    [
        pytest.param({"remaining": 0}, [missed(1, 5, 5, "count")], id="the count is used up"),
        pytest.param({"denied": "no"}, [(1, 5, 5, "denied", "no")], id="it may start nothing"),
        pytest.param({"remaining": 0, "denied": "no"}, [missed(1, 5, 5, "count")], id="both"),
    ],
)
def test_a_backlog_that_can_never_start_is_recorded_as_a_whole(more: dict[str, Any], skips: list[Skip]) -> None:
    """L-06, S-07, X-15: each with its reason."""
    made = catchup.drain(terms_of("all"), at(0), at(5), 2, situation(6, **more))
    assert skipped(made.skips) == skips
    assert (made.starts, made.watermark) == ((), at(5))


@pytest.mark.parametrize("overlap", ["cancel", "terminate"])
def test_a_displacing_policy_starts_only_the_newest_of_a_backlog(overlap: str) -> None:
    """X-09: each would end the one before; and none in place of a run that began after it."""
    terms = terms_of("all", overlap, window=5.5)
    made = catchup.drain(terms, at(0), at(5.5), 9, situation(7))
    assert (skipped(made.skips), started(made)) == ([missed(1, 1, 1)], [5])
    assert skipped(made.then) == [(2, 4, 3, "concurrency", "")]
    assert (made.base, made.watermark) == (at(1.5) - MOMENT, at(5.5))
    behind = catchup.drain(terms, at(0), at(5.5), 9, situation(7, live=1))
    assert skipped(behind.skips) == [missed(1, 1, 1), (2, 5, 4, "concurrency", "")]
    assert (behind.starts, behind.watermark) == ((), at(5.5))
    assert catchup.drain(terms, at(5), at(5.5), 9, situation(7)) == CatchupPlan((), at(5.5), (), (), at(5.5))


def test_draining_keeps_to_the_overlap_policy() -> None:
    """X-09: of what was caught up beside a live run, `skip` starts nothing."""
    made = catchup.drain(terms_of("all", "skip"), at(0), at(3), 2, situation(6, live=1))
    assert skipped(made.skips) == [(1, 2, 2, "concurrency", "")]
    assert made.watermark == at(2)


def test_a_drained_start_wants_a_token() -> None:
    """L-09, L-10: as live ones do; without it the cursor stays."""
    made = catchup.drain(terms_of("all"), at(0), at(5), 2, situation(6))
    assert len(made.starts) == 2
    assert (made.granted(0).starts, made.granted(0).watermark) == ((), at(0))
    assert (started(made.granted(1)), made.granted(1).watermark) == ([1], at(1))


def test_a_backlog_of_millennia_costs_what_its_limit_does() -> None:
    """L-08: seconds of a thousand years, which to walk one by one would never end."""
    first, until = datetime(2026, 1, 1, tzinfo=UTC), datetime(3026, 1, 1, tzinfo=UTC)
    seconds = terms_of("all", schedule=schedule_of("1s"))
    made = catchup.drain(seconds, first, until, 2, Situation(now=until, live_grace=GRACE))
    assert [fire.at - first for fire in made.starts] == [timedelta(seconds=1), timedelta(seconds=2)]
    windowed = terms_of("all", window=1, schedule=schedule_of("1s"))
    [given_up] = catchup.drain(windowed, first, until, 2, Situation(now=until, live_grace=GRACE)).skips
    assert given_up.count is None
    newest = catchup.plan(terms_of(schedule=schedule_of("1s")), first, Situation(now=until, live_grace=GRACE))
    assert newest.starts[0].at == until
    assert newest.then[0].count is None

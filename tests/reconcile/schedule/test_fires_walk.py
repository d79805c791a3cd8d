"""The schedule against a slow walk over every minute, with a matcher of its own (S-10).

Nothing here reads an expression: the generators make the text and what it means side by side.
"""

import calendar
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from reconcile.schedule import fires
from tests.blocks import parse

MINUTE = timedelta(minutes=1)
NAMES = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
TURNS = {  # zone: a minute near which its clock changes
    "Europe/Berlin": ["2026-03-29T01:00", "2026-10-25T01:00"],
    "America/New_York": ["2026-03-08T07:00", "2026-11-01T06:00"],
    "Australia/Lord_Howe": ["2026-04-04T15:00", "2026-10-03T15:30"],
    "Antarctica/Troll": ["2026-03-29T01:00", "2026-10-25T01:00"],
    "America/St_Johns": ["2009-03-08T03:31", "2009-11-01T02:31"],
    "America/Santiago": ["2026-04-05T03:00", "2026-09-06T04:00"],
    "Africa/Cairo": ["2026-04-23T22:00", "2026-10-29T21:00"],
    "Pacific/Apia": ["2011-12-30T10:00"],
    "Asia/Pyongyang": ["2015-08-14T15:00", "2018-05-04T15:00"],
    "Europe/Dublin": ["2026-03-29T01:00", "2026-10-25T01:00"],
    "UTC": ["2028-02-29T00:00"],
}


@dataclass(frozen=True)
class Field:
    text: str
    values: frozenset[int]


@dataclass(frozen=True)
class DayField:
    text: str
    holds: Callable[[date], bool]


def month_days(on: date) -> int:
    return calendar.monthrange(on.year, on.month)[1]


@st.composite
def fields(draw: st.DrawFn, low: int, high: int) -> Field:
    """A field of numbers: a list of values, ranges, steps, or `*`."""
    items: list[Field] = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["*", "*/n", "a", "a-b", "a-b/n", "a/n"]))
        a = draw(st.integers(low, high))
        b = draw(st.integers(a, high))
        n = draw(st.integers(1, high + 2))
        items.append(
            {
                "*": Field("*", frozenset(range(low, high + 1))),
                "*/n": Field(f"*/{n}", frozenset(range(low, high + 1, n))),
                "a": Field(f"{a}", frozenset([a])),
                "a-b": Field(f"{a}-{b}", frozenset(range(a, b + 1))),
                "a-b/n": Field(f"{a}-{b}/{n}", frozenset(range(a, b + 1, n))),
                "a/n": Field(f"{a}/{n}", frozenset(range(a, high + 1, n))),
            }[kind]
        )
    return Field(",".join(item.text for item in items), frozenset().union(*(item.values for item in items)))


@st.composite
def days_of_month(draw: st.DrawFn) -> DayField:
    kind = draw(st.sampled_from(["*", "?", "list", "list", "L", "W"]))
    if kind in ("*", "?"):
        return DayField(kind, lambda on: True)
    if kind == "W":
        day = draw(st.integers(1, 31))
        return DayField(f"{day}W", lambda on: nearest_weekday(on, day))
    listed = draw(fields(1, 31))
    if kind == "L":
        return DayField(f"{listed.text},L", lambda on: on.day in listed.values or on.day == month_days(on))
    return DayField(listed.text, lambda on: on.day in listed.values)


def nearest_weekday(on: date, day: int) -> bool:
    if day > month_days(on):
        return False
    weekdays = [at for at in range(1, month_days(on) + 1) if on.replace(day=at).weekday() < 5]
    # A Saturday goes back before it goes ahead, a Sunday ahead before back.
    ahead = on.replace(day=day).weekday() == 6
    return on.day == min(weekdays, key=lambda at: (abs(at - day), (at < day) == ahead))


@st.composite
def days_of_week(draw: st.DrawFn) -> DayField:
    kind = draw(st.sampled_from(["*", "?", "list", "wrap", "#", "L"]))
    if kind in ("*", "?"):
        return DayField(kind, lambda on: True)
    if kind == "list":
        listed = draw(fields(0, 6))
        return DayField(listed.text, lambda on: on.isoweekday() % 7 in listed.values)
    low, high = draw(st.integers(0, 6)), draw(st.integers(0, 6))
    step = draw(st.integers(1, 8))
    wrapped = {day % 7 for day in range(low, (high if low <= high else high + 7) + 1, step)}
    text = f"{NAMES[low]}-{high}/{step}"
    if kind == "wrap":
        return DayField(text, lambda on: on.isoweekday() % 7 in wrapped)
    several = draw(st.lists(st.integers(0, 6), min_size=1, max_size=8))
    if kind == "L":
        return DayField(
            ",".join(f"{day}L" for day in several),
            lambda on: on.isoweekday() % 7 in several and on.day + 7 > month_days(on),
        )
    nth = draw(st.integers(1, 5))
    mixed = draw(st.booleans())
    return DayField(
        ",".join([f"{NAMES[day]}#{nth}" for day in several] + [text] * mixed),
        lambda on: (
            (on.isoweekday() % 7 in several and (on.day - 1) // 7 == nth - 1)
            or (mixed and on.isoweekday() % 7 in wrapped)
        ),
    )


@dataclass(frozen=True)
class Rule:
    """An expression's text and its meaning."""

    minute: Field
    hour: Field
    day: DayField
    month: Field
    weekday: DayField

    @property
    def text(self) -> str:
        return " ".join(part.text for part in (self.minute, self.hour, self.day, self.month, self.weekday))

    def on(self, day: date) -> bool:
        if day.month not in self.month.values:
            return False
        restricted = [part for part in (self.day, self.weekday) if part.text not in ("*", "?")]
        return not restricted or any(part.holds(day) for part in restricted)

    def at(self, wall: datetime) -> bool:
        return wall.minute in self.minute.values and wall.hour in self.hour.values and self.on(wall.date())


# Most months are `*`: the windows are days long, and a rule for other months proves little there.
EVERY_MONTH = Field("*", frozenset(range(1, 13)))
months = st.one_of(st.just(EVERY_MONTH), st.just(EVERY_MONTH), fields(1, 12))
rules = st.builds(Rule, fields(0, 59), fields(0, 23), days_of_month(), months, days_of_week())


def slow_walk(
    rule: Rule, due: fires.Cron, after: datetime, until: datetime
) -> tuple[list[datetime], list[fires.LeftOut]]:
    """Every fire in (after, until] and what is left out there, by looking at each minute and at the one before it."""
    zone, rolling = ZoneInfo(due.timezone), rule.hour.text.startswith("*")
    repeats = due.fold == "both" or (due.fold == "auto" and rolling)
    found, missing = [], []
    at = after.replace(second=0, microsecond=0) + MINUTE
    while at <= until:
        here = at.astimezone(zone)
        wall, earlier = here.replace(tzinfo=None), (at - MINUTE).astimezone(zone).replace(tzinfo=None)
        again = here.utcoffset() != here.replace(fold=0).utcoffset()
        fits = rule.at(wall)
        if fits and again and not repeats:
            missing.append(fires.LeftOut(wall.isoformat(), "fold"))
            fits = False
        skipped = [earlier + MINUTE * k for k in range(1, (wall - earlier) // MINUTE)]
        named = [gone for gone in skipped if rule.at(gone)]
        if due.gap == "shift" and not rolling and len(skipped) <= 180:
            fits = fits or bool(named)
        else:
            missing += [fires.LeftOut(gone.isoformat(), "gap") for gone in named]
        if fits:
            found.append(at)
        at += MINUTE
    return found, missing


@st.composite
def windows(draw: st.DrawFn) -> tuple[str, datetime, datetime]:
    """A zone and a window that begins before a change of its clock and may end before, in or after it."""
    zone = draw(st.sampled_from(sorted(TURNS)))
    turn = datetime.fromisoformat(draw(st.sampled_from(TURNS[zone]))).replace(tzinfo=UTC)
    after = turn + timedelta(seconds=draw(st.integers(-30 * 3600, 3 * 3600)))
    return zone, after, after + timedelta(minutes=draw(st.integers(1, 40 * 60)))


@settings(max_examples=150)
@given(rules, windows(), st.sampled_from(["skip", "shift"]), st.sampled_from(["auto", "first", "both"]))
def test_fires_are_those_of_a_walk_over_every_minute(
    rule: Rule, window: tuple[str, datetime, datetime], gap: str, fold: str
) -> None:
    """S-03, S-04, S-09: through changes of the clock, forwards, backwards, counted, and what is left out there."""
    zone, after, until = window
    due = parse({"cron": rule.text, "timezone": zone, "gap": gap, "fold": fold})
    assert isinstance(due, fires.Cron)
    expected, missing = slow_walk(rule, due, after, until)
    found = fires.fires(due, after, until, 10_000)
    assert [fire.at for fire in found] == expected
    assert fires.fires(due, after, until, 3) == found[:3]
    assert fires.last(due, after, until) == (found[-1] if found else None)
    assert fires.count(due, after, until, 10_000) == len(found)
    assert fires.count(due, after, until, 2) == min(len(found), 2)
    assert len({fire.id for fire in found}) == len(found), "two fires share an occurrence id"
    assert fires.left_out(due, after, until, 10_000) == missing


@settings(max_examples=60)
@given(days_of_month(), fields(1, 12), days_of_week(), st.dates(date(1995, 1, 1), date(2095, 1, 1)))
def test_days_are_those_of_a_walk_over_every_day(day: DayField, month: Field, weekday: DayField, begin: date) -> None:
    """S-01: day of month and day of week are a union, also with L, W and #, over two years both ways."""
    rule = Rule(Field("0", frozenset([0])), Field("12", frozenset([12])), day, month, weekday)
    due = parse({"cron": rule.text})
    after = datetime(begin.year, begin.month, begin.day, tzinfo=UTC)
    until = after + timedelta(days=750)
    expected = [on for k in range(750) if rule.on(on := begin + timedelta(days=k))]
    found = fires.fires(due, after, until, 10_000)
    assert [fire.at.date() for fire in found] == expected
    assert fires.count(due, after, until, 10_000) == len(expected)
    met: list[fires.Fire] = []
    while len(met) < 25 and (newest := fires.last(due, after, until)) is not None:
        met.append(newest)
        until = newest.at - timedelta(seconds=1)
    assert met == found[::-1][:25]


@settings(max_examples=100)
@given(
    rules,
    windows(),
    st.sampled_from(["skip", "shift"]),
    st.sampled_from(["auto", "first", "both"]),
    st.sets(st.integers(0, 3), max_size=3),
    st.none() | st.integers(0, 2000),
    st.none() | st.integers(0, 2000),
)
def test_bounds_take_away_and_change_nothing_else(
    rule: Rule,
    window: tuple[str, datetime, datetime],
    gap: str,
    fold: str,
    shut: set[int],
    starts: int | None,
    ends: int | None,
) -> None:
    """S-07, S-13: within start, until and the days that are not excluded the fires are those of the walk."""
    zone, after, until = window
    first_day = after.astimezone(ZoneInfo(zone)).date()
    closed = {first_day + timedelta(days=offset) for offset in shut}
    start = after.replace(microsecond=0) + timedelta(minutes=starts) if starts is not None else None
    stop = (start or after).replace(microsecond=0) + timedelta(minutes=ends) if ends is not None else None
    block = {"cron": rule.text, "timezone": zone, "gap": gap, "fold": fold, "exclude": [str(day) for day in closed]}
    block |= {name: f"{at:%Y-%m-%dT%H:%M:%SZ}" for name, at in (("start", start), ("until", stop)) if at}
    bounded = parse(block)
    plain = parse({name: block[name] for name in ("cron", "timezone", "gap", "fold")})
    assert isinstance(plain, fires.Cron)
    low = max(after, start - timedelta(seconds=1)) if start else after
    high = min(until, stop) if stop else until
    opened, all_of_it = WithoutDays(**vars(rule), closed=frozenset(closed)), slow_walk(rule, plain, low, high)[0]
    expected, missing = slow_walk(opened, plain, low, high)
    found = fires.fires(bounded, after, until, 10_000)
    assert [fire.at for fire in found] == expected
    assert fires.last(bounded, after, until) == (found[-1] if found else None)
    assert fires.count(bounded, after, until, 10_000) == len(found)
    left_out = fires.left_out(bounded, after, until, 10_000)
    assert [left for left in left_out if left.reason != "exclude"] == missing
    if gap == "skip":
        walls = [at.astimezone(ZoneInfo(zone)).replace(tzinfo=None) for at in all_of_it]
        taken = [wall.isoformat() for wall in walls if wall.date() in closed]
        assert sorted(left.local for left in left_out if left.reason == "exclude") == sorted(taken)


@dataclass(frozen=True)
class WithoutDays(Rule):
    """A rule that means nothing on some days."""

    closed: frozenset[date]

    def on(self, day: date) -> bool:
        return day not in self.closed and super().on(day)


@settings(max_examples=100)
@given(
    st.integers(1, 200_000), st.integers(0, 500_000), st.sets(st.integers(0, 9), max_size=5), st.integers(0, 800_000)
)
def test_an_interval_keeps_its_phase_around_closed_days(every: int, past: int, shut: set[int], span: int) -> None:
    """S-06, S-07: slots are anchor + k·every whatever is excluded; those on excluded days of UTC are left out."""
    day = datetime(2026, 5, 1, tzinfo=UTC)
    closed = {day.date() + timedelta(days=offset) for offset in shut}
    due = parse({"every": f"{every}s", "anchor": "2026-04-30T12:00:00Z", "exclude": [str(one) for one in closed]})
    after = day + timedelta(seconds=past)
    until, slot = after + timedelta(seconds=span), datetime(2026, 4, 30, 12, tzinfo=UTC)
    expected = []
    while slot <= until:
        if slot > after and slot.date() not in closed:
            expected.append(slot)
        slot += timedelta(seconds=every)
        if len(expected) > 5_000:
            until = expected[-1]
    found = fires.fires(due, after, until, 10_000)
    assert [fire.at for fire in found] == expected
    assert fires.last(due, after, until) == (found[-1] if found else None)
    assert fires.count(due, after, until, 10_000) == len(found)

"""Cron expressions, validated field by field and normalised to plain lists.

The accepted forms are listed in `tests/cases/README.md` and tested by `tests/cases/validity.jsonl` (S-01, S-02).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from revisions.spec.notation import ScheduleError, shown

ALIASES: Final[Mapping[str, str]] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
LONGEST: Final = 1000

_MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
_WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
_ITEM = re.compile(r"([^/-]*)(?:-([^/-]*))?(?:/([^/]*))?")
_WORD = re.compile(r"\S+", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,9}")
_NEAREST = re.compile(r"(?:([0-9]{1,9})W|W([0-9]{1,9}))")
_LAST = re.compile(r"(?:([0-9]{1,9}|[A-Z]{3})L|L([0-9]{1,9}|[A-Z]{3}))")


class DayWalk(NamedTuple):
    """One day rule as a midnight expression for croniter; the matching days are the union of all walks.

    `needs` is the minimum length of a month in days: `31W` matches nothing in a month of thirty days.
    """

    expression: str
    needs: int = 1


@dataclass(frozen=True, slots=True)
class Expression:
    """Normalised expression: the times of a day and the days.

    `minutes` are minutes of the day and `seconds` the seconds within each, both ascending. Without `walks` every day
    matches. `rolling` is true when the hour field begins with `*`: such an expression follows elapsed time through a
    repeated hour instead of naming wall times (S-04).
    """

    minutes: tuple[int, ...]
    seconds: tuple[int, ...]
    walks: tuple[DayWalk, ...]
    rolling: bool


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    names: Mapping[str, int] = field(default_factory=dict)
    wraps: bool = False

    @property
    def limits(self) -> str:
        return f"{self.low}-{self.high}"

    def error(self, message: str, hint: str = "") -> ScheduleError:
        named = f", names {next(iter(self.names))}-{list(self.names)[-1]}" if self.names else ""
        ways = f"write {self.limits}{named}, *, a list 1,2, a range 1-5 or a step */2"
        return ScheduleError("cron", f"{self.name}: {message}", hint or ways)


_SECOND = _Field("second", 0, 59)
_MINUTE = _Field("minute", 0, 59)
_HOUR = _Field("hour", 0, 23)
_DAY = _Field("day of month", 1, 31)
_MONTH = _Field("month", 1, 12, {name: at for at, name in enumerate(_MONTHS, 1)}, wraps=True)
_WEEKDAY = _Field("day of week", 0, 7, {name: at for at, name in enumerate(_WEEKDAYS)}, wraps=True)


@lru_cache(maxsize=16384)
def expression(text: str) -> Expression:
    """Parse an expression of five fields, six with seconds first, or an alias such as `@daily`.

    Raises ScheduleError at `cron`, naming the wrong field. An expression that never fires is accepted.
    """
    second, minute, hour, day, month, weekday = _split(text)
    minutes = _values(_MINUTE, minute)
    return Expression(
        minutes=tuple(at * 60 + past for at in _values(_HOUR, hour) for past in minutes),
        seconds=_values(_SECOND, second),
        walks=_day_walks(day, month, weekday),
        rolling=hour.startswith("*"),
    )


def _split(text: str) -> list[str]:
    if len(text) > LONGEST:
        raise ScheduleError("cron", f"the expression is longer than {LONGEST} characters", "use ranges and steps")
    if not text.isascii():
        raise ScheduleError("cron", f"{shown(text)} holds characters that are not ASCII", "part fields by plain blanks")
    fields = _WORD.findall(text.upper())
    if not fields:
        raise ScheduleError("cron", "the expression is empty", "write five fields: minute hour day month weekday")
    if fields[0].startswith(("CRON_TZ=", "TZ=")):
        raise ScheduleError("cron", "the expression names a zone", "write it in `timezone`")
    if fields[0] == "@EVERY":
        raise ScheduleError("cron", "@every is an interval", "write `every: 5m` instead of `cron`")
    if fields[0].startswith("@"):
        alias = ALIASES.get(" ".join(fields).lower())
        if alias is None:
            raise ScheduleError("cron", f"{shown(text)} is not an alias", f"write one of {' '.join(ALIASES)}")
        fields = alias.split()
    if len(fields) == 5:
        return ["0", *fields]
    if len(fields) == 6:
        return fields
    hint = "write five fields: minute hour day month weekday; six begin with the second"
    raise ScheduleError("cron", f"the expression has {len(fields)} field{'s'[: len(fields) != 1]}", hint)


def _values(part: _Field, text: str) -> tuple[int, ...]:
    return tuple(sorted({value for item in text.split(",") for value in _item(part, item)}))


def _item(part: _Field, text: str) -> list[int]:
    """Return the values of one list item: `*`, `a` or `a-b`, with an optional `/step`; `a/n` runs to the end of the
    field.
    """
    found = _ITEM.fullmatch(text)
    if not text or found is None:
        raise part.error(f"{shown(text)} is not a value, a range or a step" if text else "an item is empty")
    start, end, step = found.groups()
    every = 1 if step is None else _step(part, step)
    if start == "*" and end is None:
        return list(range(part.low, _top(part) + 1, every))
    low = _value(part, start)
    if end is None and step is None:
        return [low % 7 if part is _WEEKDAY else low]
    if end is not None:
        return _range(part, text, low, _value(part, end), every)
    return list(range(low % 7 if part is _WEEKDAY else low, _top(part) + 1, every))


def _range(part: _Field, text: str, low: int, high: int, every: int) -> list[int]:
    if low <= high:
        reached = list(range(low, high + 1, every))
    elif part.wraps:
        size = _top(part) - part.low + 1
        low = low % 7 if part is _WEEKDAY else low
        reached = [part.low + (at - part.low) % size for at in range(low, low + (high - low) % size + 1, every)]
    else:
        raise part.error(f"{text} runs backwards", f"write {low}-{part.high},{part.low}-{high}")
    return [at % 7 for at in reached] if part is _WEEKDAY else reached


def _top(part: _Field) -> int:
    """Return the last value that `*` includes; 7 is a second notation for Sunday."""
    return 6 if part is _WEEKDAY else part.high


def _value(part: _Field, text: str) -> int:
    if text in part.names:
        return part.names[text]
    if not text:
        raise part.error("one end of a range or the start of a step is missing")
    if not _NUMBER.fullmatch(text):
        if text.startswith(("H", "R")):
            raise part.error(f"{shown(text)} is a hashed or random value", "write the number; `spread` moves triggers")
        raise part.error(f"{shown(text)} is not a {'name or a ' if part.names else ''}number")
    number = int(text)
    if not part.low <= number <= part.high:
        raise part.error(f"{number} is not in {part.limits}")
    return number


def _step(part: _Field, text: str) -> int:
    if not _NUMBER.fullmatch(text) or int(text) == 0:
        raise part.error(f"{shown(text)} is not a step", "write a number from 1 on after the slash")
    return int(text)


def _day_walks(day: str, month: str, weekday: str) -> tuple[DayWalk, ...]:
    """Return the union of the two day fields; a field that is exactly `*` or `?` does not restrict the days."""
    months = _values(_MONTH, month)
    among = "*" if len(months) == 12 else _listed(months)
    walks: list[DayWalk] = []
    if day not in ("*", "?"):
        walks += [DayWalk(f"0 0 {days} {among} *", needs) for days, needs in _days_of_month(day)]
    if weekday not in ("*", "?"):
        walks += [DayWalk(f"0 0 * {among} {days}") for days in _days_of_week(weekday)]
    if not walks and among != "*":
        walks.append(DayWalk(f"0 0 * {among} *"))
    return tuple(walks)


def _days_of_month(text: str) -> list[tuple[str, int]]:
    """Return (field for croniter, minimum length of the month) for a day-of-month field."""
    if nearest := _NEAREST.fullmatch(text):
        day = _value(_DAY, nearest[1] or nearest[2])
        return [(f"{day}w", day)]
    items = text.split(",")
    for item in items:
        if item != "L" and "W" in item:
            raise _DAY.error(f"{shown(item)} is not a nearest weekday", "write a single day alone, such as 15W")
        if item != "L" and "L" in item:
            raise _DAY.error(f"{shown(item)} is not a last day", "write L alone or in a list, such as 15,L")
    # L walks apart: croniter takes thirty days and L for all of the 31 days of a month.
    walks = [("l", 1)] if "L" in items else []
    plain = [item for item in items if item != "L"]
    return walks + ([(_listed(_values(_DAY, ",".join(plain))), 1)] if plain else [])


def _days_of_week(text: str) -> list[str]:
    """Return croniter's fields of a day-of-week field: it does not accept plain days together with `#` and `L`."""
    plain, special = [], []
    for item in text.split(","):
        if item == "L":
            raise _WEEKDAY.error("L needs a day", "write L5 or 5L for the last Friday")
        if last := _LAST.fullmatch(item):
            special.append(f"l{_value(_WEEKDAY, last[1] or last[2]) % 7}")
        elif "#" in item:
            special += _nth(item)
        else:
            plain.append(item)
    fields = [_listed(_values(_WEEKDAY, ",".join(plain)))] if plain else []
    return fields + ([",".join(special)] if special else [])


def _nth(item: str) -> list[str]:
    days, _, nth = item.partition("#")
    if nth not in ("1", "2", "3", "4", "5") or "/" in days or "*" in days:
        raise _WEEKDAY.error(f"{shown(item)} is not an nth weekday", "write FRI#2 for the second Friday, 1 to 5")
    return [f"{day}#{nth}" for day in _item(_WEEKDAY, days)]


def _listed(values: tuple[int, ...]) -> str:
    return ",".join(map(str, values))

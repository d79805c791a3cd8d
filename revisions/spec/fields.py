"""Fields of specs: how people write durations, instants, days and costs, and the types they are parsed into."""

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StrictBool,
    StrictFloat,
    StrictInt,
)
from pydantic.dataclasses import dataclass
from pydantic_core import PydanticCustomError, PydanticKnownError

from revisions.spec import notation
from revisions.spec.notation import ScheduleError, shown

STRICT: Final = ConfigDict(extra="forbid")
NOTATION: Final = "notation"
"""Type of pydantic errors whose context has the path below the field, the message and the hint."""
LARGEST_COST: Final = 1e12
"""Largest cost of a run or a budget; sums of such costs stay finite."""


def parsed(parse: Callable[[Any], Any], expected: type = str) -> PlainValidator:
    """Return the validator that parses a field from text, or from a list with `expected=list`."""

    def validate(value: Any) -> Any:
        value = _not_null(value)
        if not isinstance(value, expected):
            raise PydanticKnownError("string_type" if expected is str else "list_type")
        return _noting(parse)(value)

    return PlainValidator(validate)


def _noting(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Turn the ScheduleErrors of a parser into errors that pydantic collects."""

    def validate(value: Any) -> Any:
        try:
            return parse(value)
        except ScheduleError as error:
            facts = {"path": error.path, "message": error.message, "hint": error.hint}
            raise PydanticCustomError(NOTATION, "{message}", facts) from None

    return validate


def _not_null(value: Any) -> Any:
    if value is None:
        raise ValueError("is null; leave the field out instead")
    return value


def span_between(least: timedelta, most: timedelta, bounds: str, hint: str) -> PlainValidator:
    """Return the validator of a span of time from `least` to `most`; `bounds` names them in the error message."""

    def parse(text: str) -> timedelta:
        span = notation.duration(text)
        if not least <= span <= most:
            raise ScheduleError("", f"{shown(text)} is not between {bounds}", hint)
        return span

    return parsed(parse)


def _whole_seconds(text: str) -> timedelta:
    span = notation.duration(text)
    if span < SECOND:
        raise ScheduleError("", f"{shown(text)} is shorter than a second", "write 1s or more")
    if span % SECOND:
        raise ScheduleError("", f"{shown(text)} is not a number of whole seconds", "leave the fraction out")
    return span


def _whole_instant(text: str) -> datetime:
    return notation.instant(text, whole=True)


def _count(number: int | None) -> int | None:
    if number is not None and number < 1:
        raise ScheduleError("", f"{shown(number)} is not a number of starts", "write a whole number from 1 on")
    return number


SECOND: Final = timedelta(seconds=1)
Written = BeforeValidator(_not_null)
"""Validator that refuses null: an optional field is left out instead."""
Text = Annotated[str, Field(strict=True)]
OptionalText = Annotated[Text | None, Written]
OptionalBool = Annotated[StrictBool | None, Written]
Span = Annotated[timedelta | None, parsed(notation.duration)]
WholeSpan = Annotated[timedelta | None, parsed(_whole_seconds)]
Instant = Annotated[datetime | None, parsed(notation.instant)]
WholeInstant = Annotated[datetime | None, parsed(_whole_instant)]
Days = Annotated[frozenset[date], parsed(notation.days, list)]
TimeOfDay = Annotated[time | None, parsed(notation.time_of_day)]
Starts = Annotated[StrictInt | None, Written, AfterValidator(_noting(_count))]
Cost = Annotated[StrictFloat, Field(ge=0, le=LARGEST_COST, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class ConcurrencySpec:
    """Number of runs that may run at once (X-04)."""

    limit: Annotated[StrictInt, Field(ge=1)]

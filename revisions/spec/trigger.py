"""Trigger manifest: typed metadata and spec, and the spec as it was written (R-01, R-10)."""

import dataclasses
from dataclasses import field
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, StrictBool, StrictInt
from pydantic.dataclasses import dataclass

from revisions.errors import Fault
from revisions.ids import TriggerKey, name_faults
from revisions.spec import reading
from revisions.spec.fields import (
    SECOND,
    STRICT,
    ConcurrencySpec,
    Cost,
    Days,
    OptionalBool,
    OptionalText,
    Span,
    Starts,
    Text,
    TimeOfDay,
    WholeInstant,
    WholeSpan,
    Written,
    parsed,
    span_between,
)
from revisions.spec.notation import ScheduleError, shown

NO_INPUT: Final[dict[str, Any]] = {}
"""Input of specs without one, shared because up to 200,000 specs are cached."""
AUTOMATIONS: Final = ("schedule",)


class Gap(StrEnum):
    """Treatment of a wall time that does not exist (S-03)."""

    SKIP = "skip"
    SHIFT = "shift"


class Fold(StrEnum):
    """Treatment of a wall time that happens twice (S-04)."""

    AUTO = "auto"
    FIRST = "first"
    BOTH = "both"


class CatchupPolicy(StrEnum):
    """Missed occurrences that get a run (L-05)."""

    ALL = "all"
    LATEST = "latest"
    NONE = "none"


class OverlapPolicy(StrEnum):
    """Treatment of an occurrence while an earlier run is live (X-04)."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE_ONE = "queue_one"
    QUEUE_ALL = "queue_all"
    CANCEL = "cancel"
    TERMINATE = "terminate"


class BudgetPeriod(StrEnum):
    """Calendar period of a budget (X-08)."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    YEAR = "year"


def _gap(text: str) -> Gap:
    try:
        return Gap(text)
    except ValueError:
        raise ScheduleError("", f"{shown(text)} is not a way to treat a gap", "write skip or shift") from None


def _fold(text: str) -> Fold:
    try:
        return Fold(text)
    except ValueError:
        raise ScheduleError("", f"{shown(text)} is not a way to treat a fold", "write auto, first or both") from None


_SPREAD = span_between(SECOND, timedelta(days=1), "1s and 1d", "write a span such as 10m")
_WAIT = span_between(SECOND, timedelta(days=365), "1s and 1y", "write a span such as 10m")
LONGEST_DEADLINE: Final = timedelta(days=31)
_DEADLINE = span_between(SECOND, LONGEST_DEADLINE, "1s and 31d", "write a span such as 2h")


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class ScheduleSpec:
    """The `schedule` block, parsed field by field; `reconcile.schedule.definition` builds the schedule from it.

    `count` is the number of occurrences that may start after the baseline (S-07). `spread` is the window within which
    the trigger's own offset lies (S-12).
    """

    cron: OptionalText = None
    timezone: OptionalText = None
    gap: Annotated[Gap | None, parsed(_gap)] = None
    fold: Annotated[Fold | None, parsed(_fold)] = None
    every: WholeSpan = None
    anchor: WholeInstant = None
    at: WholeInstant = None
    in_: Annotated[WholeSpan, Field(alias="in")] = None
    start: WholeInstant = None
    until: WholeInstant = None
    count: Starts = None
    spread: Annotated[timedelta, _SPREAD] = timedelta(0)
    exclude: Days = frozenset()
    calendars: tuple[Text, ...] = ()
    kickoff_time_input: OptionalText = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of schedule in the block; a valid block has exactly one."""
        values = {"cron": self.cron, "every": self.every, "at": self.at, "in": self.in_}
        return tuple(kind for kind, value in values.items() if value is not None)


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class CatchupSpec:
    """The `catchup` block (L-05); `inactive` includes the time while the trigger is paused or deleted (R-21)."""

    policy: CatchupPolicy = CatchupPolicy.LATEST
    inactive: StrictBool = False
    window: Span = None


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class RetrySpec:
    """The `retry` block."""

    max_attempts: Annotated[StrictInt, Field(ge=1, le=100)] = 3


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class LimitsSpec:
    """The `limits` block: number of runs, expiry and budget (X-08)."""

    max_runs: Annotated[StrictInt | None, Field(ge=1), Written] = None
    expires_at: WholeInstant = None
    max_cost: Annotated[Cost | None, Field(gt=0), Written] = None
    estimate: Annotated[Cost | None, Written] = None
    budget_period: Annotated[BudgetPeriod | None, Written] = None


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class ExpectSpec:
    """The `expect` block: deadlines for a success, by a time of day or within a span after each occurrence (X-16)."""

    success_by: TimeOfDay = None
    within: Annotated[timedelta | None, _DEADLINE] = None


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class TriggerSpec:
    """Spec of a trigger; its defaults never change within an apiVersion (R-10).

    `start_within` is the longest time that a run may wait for its start (X-18), `scopes` the actions that the trigger
    may perform (X-15).
    """

    task_version: Text
    active: OptionalBool = None
    description: Text = ""
    schedule: ScheduleSpec
    input: dict[str, Any] = field(default_factory=lambda: NO_INPUT)
    input_builder: Literal["static"] = "static"
    catchup: CatchupSpec = CatchupSpec()
    overlap: OverlapPolicy | None = None
    serialize_key: Annotated[OptionalText, Field(min_length=1, max_length=256)] = None
    concurrency: Annotated[ConcurrencySpec | None, Written] = None
    limits: LimitsSpec = LimitsSpec()
    start_within: Annotated[timedelta | None, _WAIT] = None
    retry: RetrySpec = RetrySpec()
    deactivate_after: Annotated[StrictInt, Field(ge=1)] = 5
    expect: Annotated[ExpectSpec | None, Written] = None
    secret_scope: OptionalText = None
    allow_destructive: StrictBool = False
    requires_approval: StrictBool = False
    scopes: tuple[Literal["run.start"], ...] = ("run.start",)

    @property
    def concurrency_limit(self) -> int | None:
        """Number of the trigger's runs that may run at once, None for any number (X-04)."""
        return self.concurrency.limit if self.concurrency else None


def _tags(value: Any) -> Any:
    return sorted(set(value)) if isinstance(value, list) and all(isinstance(tag, str) for tag in value) else value


Tags = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=128)], ...], BeforeValidator(_tags)]


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class TriggerMetadata:
    """The `metadata` block of a trigger."""

    project: Text
    domain: Text
    task: Text
    name: Text
    tags: Tags = ()


@dataclasses.dataclass(frozen=True, slots=True)
class TriggerManifest:
    """Manifest of a trigger; `written` is its spec without `active`, which revisions store (R-10)."""

    metadata: TriggerMetadata
    spec: TriggerSpec
    written: dict[str, Any]

    @property
    def key(self) -> TriggerKey:
        return TriggerKey(self.metadata.project, self.metadata.domain, self.metadata.task, self.metadata.name)

    @classmethod
    def read(cls, document: Any) -> Self:
        """Check one document. Raises Invalid with a fault per field (R-01, R-18)."""
        parts = reading.opened(document, "Trigger", {"apiVersion", "kind", "metadata", "spec"})
        faults: list[Fault] = []
        metadata = reading.validated(TriggerMetadata, parts.get("metadata"), "metadata", faults)
        written = (
            {k: v for k, v in parts["spec"].items() if k != "active"} if isinstance(parts.get("spec"), dict) else {}
        )
        spec = reading.validated(TriggerSpec, parts.get("spec"), "spec", faults)
        if metadata:
            names = {"project": metadata.project, "domain": metadata.domain, "task": metadata.task}
            faults += name_faults("metadata.", **names, name=metadata.name)
        if spec and name_faults("spec.", version=spec.task_version):
            faults += [
                Fault("spec.task_version", f.message, f.hint) for f in name_faults("", version=spec.task_version)
            ]
        if spec and spec.secret_scope is not None:
            faults += name_faults("spec.", secret_scope=spec.secret_scope)
        reading.refuse(faults)
        assert metadata is not None
        assert spec is not None
        return cls(metadata=metadata, spec=spec, written=written)

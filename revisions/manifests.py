"""What people write, checked field by field; what is stored is their own text, never these models."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictFloat, StrictInt

from revisions import reading
from revisions.errors import Fault, Invalid, few
from revisions.ids import CalendarKey, TaskKey, TriggerKey, name_faults

AUTOMATIONS = ("schedule",)

Text = Annotated[str, Field(strict=True)]


def _written(value: Any) -> Any:
    if value is None:
        raise ValueError("is null; leave the field out instead")
    return value


Optional = Annotated[Text | None, BeforeValidator(_written)]
"""A text that may be left out; a written null is refused, because the stored text would not mean what it says."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Schedule(_Strict):
    """When; the expression itself is judged by `reconcile.schedule.fires`."""

    cron: Optional = None
    timezone: Optional = None
    gap: Optional = None
    fold: Optional = None
    every: Optional = None
    anchor: Optional = None
    at: Optional = None
    in_: Annotated[Optional, Field(alias="in")] = None
    start: Optional = None
    until: Optional = None
    count: Annotated[StrictInt | None, BeforeValidator(_written)] = None
    spread: Optional = None
    exclude: tuple[Text, ...] = ()
    calendars: tuple[Text, ...] = ()
    kickoff_time_input: Optional = None


class Catchup(_Strict):
    policy: Literal["all", "latest", "none"] = "latest"
    inactive: StrictBool = False
    window: Optional = None


class Retry(_Strict):
    max_attempts: Annotated[StrictInt, Field(ge=1, le=100)] = 3


class Concurrency(_Strict):
    """How many runs may run at once (X-04)."""

    limit: Annotated[StrictInt, Field(ge=1)]


LARGEST_COST: Final = 1e12
"""So that sums stay numbers."""
Cost = Annotated[StrictFloat, Field(ge=0, le=LARGEST_COST, allow_inf_nan=False)]


class Limits(_Strict):
    """What ends a trigger by itself (X-08); `expires_at` is judged by `reconcile.schedule.bounds`."""

    max_runs: Annotated[StrictInt | None, Field(ge=1), BeforeValidator(_written)] = None
    expires_at: Optional = None
    max_cost: Annotated[Cost | None, Field(gt=0), BeforeValidator(_written)] = None
    estimate: Annotated[Cost | None, BeforeValidator(_written)] = None
    budget_period: Literal["day", "week", "month", "year"] = "month"


class Expect(_Strict):
    """When a success is expected (X-16); judged by `reconcile.decide.expectations`."""

    success_by: Optional = None
    within: Optional = None


class TriggerSpec(_Strict):
    task_version: Text
    active: Annotated[StrictBool | None, BeforeValidator(_written)] = None
    description: Text = ""
    schedule: Schedule
    input: dict[str, Any] = {}
    input_builder: Literal["static"] = "static"
    catchup: Catchup = Catchup()
    overlap: Literal["allow", "skip", "queue_one", "queue_all", "cancel", "terminate"] | None = None
    serialize_key: Annotated[Optional, Field(min_length=1, max_length=256)] = None
    concurrency: Annotated[Concurrency | None, BeforeValidator(_written)] = None
    limits: Limits = Limits()
    start_within: Optional = None
    retry: Retry = Retry()
    deactivate_after: Annotated[StrictInt, Field(ge=1)] = 5
    expect: Annotated[Expect | None, BeforeValidator(_written)] = None
    secret_scope: Optional = None
    allow_destructive: StrictBool = False
    requires_approval: StrictBool = False
    scopes: tuple[Literal["run.start"], ...] = ("run.start",)


def _tags(value: Any) -> Any:
    return sorted(set(value)) if isinstance(value, list) and all(isinstance(tag, str) for tag in value) else value


Tags = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=128)], ...], BeforeValidator(_tags)]


class TriggerMetadata(_Strict):
    project: Text
    domain: Text
    task: Text
    name: Text
    tags: Tags = ()


class Trigger(_Strict):
    """A trigger as written; `written` is its spec without `active`, the text of which is what revisions keep (R-10)."""

    metadata: TriggerMetadata
    spec: TriggerSpec
    written: dict[str, Any]

    @property
    def key(self) -> TriggerKey:
        return TriggerKey(self.metadata.project, self.metadata.domain, self.metadata.task, self.metadata.name)

    @classmethod
    def read(cls, document: Any) -> Self:
        """Checks one document. Raises Invalid with a fault per field (R-01, R-18)."""
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


class TaskSpec(BaseModel):
    """How to launch; exactly one more block stands in it, named by `launcher` and judged by that launcher."""

    model_config = ConfigDict(extra="allow", frozen=True)

    launcher: Text
    description: Text = ""
    timeout: Text = "1h"
    inputs: dict[str, dict[str, Any]] = {}
    outputs: dict[str, dict[str, Any]] = {}
    concurrency: Annotated[Concurrency | None, BeforeValidator(_written)] = None
    secrets: tuple[Text, ...] = ()
    requires_approval: StrictBool = False

    @property
    def block(self) -> Any:
        """What stands under the launcher's name."""
        return (self.model_extra or {}).get(self.launcher)


class TaskMetadata(_Strict):
    project: Text
    domain: Text
    name: Text
    version: Text


class Task(_Strict):
    """A task version as written (R-12)."""

    metadata: TaskMetadata
    spec: TaskSpec
    written: dict[str, Any]

    @property
    def key(self) -> TaskKey:
        return TaskKey(self.metadata.project, self.metadata.domain, self.metadata.name, self.metadata.version)

    @classmethod
    def read(cls, document: Any) -> Self:
        """Checks one document. Raises Invalid with a fault per field."""
        parts = reading.opened(document, "Task", {"apiVersion", "kind", "metadata", "spec"})
        faults: list[Fault] = []
        metadata = reading.validated(TaskMetadata, parts.get("metadata"), "metadata", faults)
        spec = reading.validated(TaskSpec, parts.get("spec"), "spec", faults)
        if metadata:
            faults += name_faults("metadata.", project=metadata.project, domain=metadata.domain)
            named = name_faults("", task=metadata.name)
            faults += [Fault("metadata.name", f.message.replace("task", "name"), f.hint) for f in named]
            faults += name_faults("metadata.", version=metadata.version)
        if spec:
            faults += few(_beside_the_block(spec))
            faults += few(_secret_faults(spec.secrets))
        reading.refuse(faults)
        assert metadata is not None
        assert spec is not None
        return cls(metadata=metadata, spec=spec, written=parts["spec"])


class CalendarSpec(_Strict):
    """Days off; what a date is, is judged by `reconcile.schedule.bounds`."""

    owner: Annotated[Text, Field(min_length=1)]
    reason: Text = ""
    until: Optional = None
    dates: tuple[Text, ...]


class CalendarMetadata(_Strict):
    project: Text
    name: Text


class Calendar(_Strict):
    """A calendar of days off as written (S-13)."""

    metadata: CalendarMetadata
    spec: CalendarSpec
    written: dict[str, Any]

    @property
    def key(self) -> CalendarKey:
        return CalendarKey(self.metadata.project, self.metadata.name)

    @classmethod
    def read(cls, document: Any) -> Self:
        """Checks one document. Raises Invalid with a fault per field."""
        parts = reading.opened(document, "Calendar", {"apiVersion", "kind", "metadata", "spec"})
        faults: list[Fault] = []
        metadata = reading.validated(CalendarMetadata, parts.get("metadata"), "metadata", faults)
        spec = reading.validated(CalendarSpec, parts.get("spec"), "spec", faults)
        if metadata:
            faults += name_faults("metadata.", project=metadata.project, name=metadata.name)
        reading.refuse(faults)
        assert metadata is not None
        assert spec is not None
        return cls(metadata=metadata, spec=spec, written=parts["spec"])


def _beside_the_block(spec: TaskSpec) -> Iterator[Fault]:
    known = [*TaskSpec.model_fields, spec.launcher]
    for name in spec.model_extra or {}:
        if name != spec.launcher:
            yield reading.unknown(f"spec.{name}", name, known)
    if spec.block is None:
        yield Fault(f"spec.{spec.launcher}", "is missing", f"say what to launch under `{spec.launcher}:`")


def _secret_faults(names: Sequence[str]) -> Iterator[Fault]:
    seen: set[str] = set()
    for index, name in enumerate(names):
        path = f"spec.secrets[{index}]"
        if name in seen:
            yield Fault(path, f"{name} stands there twice", "write it once")
        seen.add(name)
        yield from (Fault(path, fault.message, fault.hint) for fault in name_faults("", secret=name))


def read(document: Any) -> Task | Trigger | Calendar:
    """One document of any kind. Raises Invalid."""
    kinds: Mapping[str, type[Task | Trigger | Calendar]] = {"Task": Task, "Trigger": Trigger, "Calendar": Calendar}
    kind = document.get("kind") if isinstance(document, dict) else None
    if not isinstance(kind, str) or kind not in kinds:
        raise Invalid.at("kind", f"is {kind!r}", f"one of {', '.join(kinds)}")
    return kinds[kind].read(document)

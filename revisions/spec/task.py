"""Task manifest: typed metadata and spec, and the spec as it was written (R-12)."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from datetime import timedelta
from typing import Annotated, Any, Final, Self

from pydantic import StrictBool
from pydantic.dataclasses import dataclass

from revisions.errors import Fault, few
from revisions.ids import TaskKey, name_faults
from revisions.spec import notation, reading
from revisions.spec.fields import STRICT, ConcurrencySpec, Text, Written, parsed


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class TaskSpec:
    """Spec of a task version: its launcher, inputs and outputs.

    `block` is the block under the launcher's name, as written; the launcher parses it. `timeout` limits one attempt. A
    task that declares no `inputs` accepts any.
    """

    launcher: Text
    description: Text = ""
    timeout: Annotated[timedelta, parsed(notation.duration)] = timedelta(hours=1)
    inputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    concurrency: Annotated[ConcurrencySpec | None, Written] = None
    secrets: tuple[Text, ...] = ()
    requires_approval: StrictBool = False
    block: Any = None

    @property
    def concurrency_limit(self) -> int | None:
        """Number of the task's runs that may run at once, None for any number (X-04)."""
        return self.concurrency.limit if self.concurrency else None


FIELDS: Final = tuple(name for name in TaskSpec.__dataclass_fields__ if name != "block")
"""Fields of a task's spec without the launcher's block."""


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class TaskMetadata:
    """The `metadata` block of a task."""

    project: Text
    domain: Text
    name: Text
    version: Text


@dataclasses.dataclass(frozen=True, slots=True)
class TaskManifest:
    """Manifest of a task version; `written` is its spec as it was written (R-12)."""

    metadata: TaskMetadata
    spec: TaskSpec
    written: dict[str, Any]

    @property
    def key(self) -> TaskKey:
        return TaskKey(self.metadata.project, self.metadata.domain, self.metadata.name, self.metadata.version)

    @classmethod
    def read(cls, document: Any) -> Self:
        """Check one document. Raises Invalid with a fault per field."""
        parts = reading.opened(document, "Task", {"apiVersion", "kind", "metadata", "spec"})
        faults: list[Fault] = []
        metadata = reading.validated(TaskMetadata, parts.get("metadata"), "metadata", faults)
        written = parts.get("spec")
        fields = with_block(written) if isinstance(written, dict) else written
        spec = reading.validated(TaskSpec, fields, "spec", faults)
        if metadata:
            faults += name_faults("metadata.", project=metadata.project, domain=metadata.domain)
            named = name_faults("", task=metadata.name)
            faults += [Fault("metadata.name", f.message.replace("task", "name"), f.hint) for f in named]
            faults += name_faults("metadata.", version=metadata.version)
        if spec:
            faults += few(_field_faults(parts["spec"], spec))
            faults += few(_secret_faults(spec.secrets))
        reading.refuse(faults)
        assert metadata is not None
        assert spec is not None
        return cls(metadata=metadata, spec=spec, written=parts["spec"])


def with_block(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the known fields of a task's spec, with the block under the launcher's name as `block`."""
    launcher = written.get("launcher")
    block = written.get(launcher) if isinstance(launcher, str) and launcher not in FIELDS else None
    return {name: value for name, value in written.items() if name in FIELDS} | {"block": block}


def _field_faults(written: Mapping[str, Any], spec: TaskSpec) -> Iterator[Fault]:
    known = [*FIELDS, spec.launcher]
    for name in written:
        if name not in known:
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

"""Manifests of any kind, and the calendar manifest: days off under a name (S-13)."""

import dataclasses
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, Self

from pydantic import Field
from pydantic.dataclasses import dataclass

from revisions.errors import Fault, Invalid
from revisions.ids import CalendarKey, name_faults
from revisions.spec import reading
from revisions.spec.fields import STRICT, Days, Instant, Text
from revisions.spec.task import TaskManifest
from revisions.spec.trigger import TriggerManifest


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class CalendarSpec:
    """Spec of a calendar; days after the day of `until` are not closed."""

    owner: Annotated[Text, Field(min_length=1)]
    reason: Text = ""
    until: Instant = None
    dates: Days

    @property
    def days(self) -> frozenset[date]:
        """Closed days, up to the day of `until`."""
        if self.until is None:
            return self.dates
        end = self.until.date()
        return frozenset(day for day in self.dates if day <= end)


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class CalendarMetadata:
    """The `metadata` block of a calendar."""

    project: Text
    name: Text


@dataclasses.dataclass(frozen=True, slots=True)
class CalendarManifest:
    """A calendar of days off as written (S-13)."""

    metadata: CalendarMetadata
    spec: CalendarSpec
    written: dict[str, Any]

    @property
    def key(self) -> CalendarKey:
        return CalendarKey(self.metadata.project, self.metadata.name)

    @classmethod
    def read(cls, document: Any) -> Self:
        """Check one document. Raises Invalid with a fault per field."""
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


Manifest = TaskManifest | TriggerManifest | CalendarManifest

KINDS: Mapping[str, type[Manifest]] = {"Task": TaskManifest, "Trigger": TriggerManifest, "Calendar": CalendarManifest}


def read(document: Any) -> Manifest:
    """Check one document of any kind. Raises Invalid with a fault per field."""
    kind = document.get("kind") if isinstance(document, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise Invalid.at("kind", f"is {kind!r}", f"one of {', '.join(KINDS)}")
    return KINDS[kind].read(document)

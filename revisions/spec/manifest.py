"""Manifests of any kind."""

from collections.abc import Mapping
from typing import Any

from revisions.errors import Invalid
from revisions.spec.calendar import CalendarManifest
from revisions.spec.task import TaskManifest
from revisions.spec.trigger import TriggerManifest

Manifest = TaskManifest | TriggerManifest | CalendarManifest

KINDS: Mapping[str, type[Manifest]] = {"Task": TaskManifest, "Trigger": TriggerManifest, "Calendar": CalendarManifest}


def read(document: Any) -> Manifest:
    """Check one document of any kind. Raises Invalid with a fault per field."""
    kind = document.get("kind") if isinstance(document, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise Invalid.at("kind", f"is {kind!r}", f"one of {', '.join(KINDS)}")
    return KINDS[kind].read(document)

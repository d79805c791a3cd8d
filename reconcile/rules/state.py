"""The state that a run hands on to the next of its trigger (X-03, X-06)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from revisions.chain import canonical

KEY: Final = "state"
"""The output that is kept for a trigger's next run, and what a task finds it under."""
LARGEST: Final = 64 * 1024
"""Bytes of its canonical text; what is larger belongs into a store of its own, with a reference in the state."""


@dataclass(frozen=True, slots=True)
class State:
    """A state as canonical JSON, and what is wrong with it: None for one that can be kept."""

    text: str
    fault: str | None


def of(value: Any) -> State:
    """Any JSON value as a state."""
    text = canonical(value)
    size = len(text.encode())
    too_large = f"is {size:,} bytes as canonical JSON, at most {LARGEST:,} are kept"
    return State(text, too_large if size > LARGEST else None)


def produced(output: Mapping[str, Any] | None) -> State | None:
    """The state in an output, null being one too; None for an output without."""
    return of(output[KEY]) if output is not None and KEY in output else None

"""Names of traces and spans that follow from what they stand for, so that they outlive every process (O-04).

A run's trace is that of the request which asked for it, else it follows from the run's id; its spans are named by the
run and what they are of it. So whoever goes on with a run, or settles it, tells of the same trace, and nothing is kept
for that but what a request said. The form is that of W3C Trace Context.

The id itself would not do for a trace: those of one millisecond are neighbours, and a share of the traces is chosen by
their last bits.
"""

import hashlib
import re
from dataclasses import dataclass, replace

from revisions.outcomes import RunSource

SAMPLED, RANDOM = 1, 2
"""Flags: that the trace is recorded, and that its id ends in bits by which a share can be chosen."""
MANY = frozenset({RunSource.BACKFILL})
"""Sources of which one request makes many runs: each has a trace of its own, with a link to the request's."""

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


@dataclass(frozen=True, slots=True)
class Context:
    """One span of one trace; as text it is a `traceparent`."""

    trace_id: int
    span_id: int
    flags: int = RANDOM

    @property
    def trace(self) -> str:
        """The trace's id as people and programs write it."""
        return f"{self.trace_id:032x}"

    @property
    def is_sampled(self) -> bool:
        return bool(self.flags & SAMPLED)

    def sampled(self, is_sampled: bool) -> "Context":
        """The same, recorded or not."""
        return replace(self, flags=self.flags & ~SAMPLED | (SAMPLED if is_sampled else 0))

    def __str__(self) -> str:
        return f"00-{self.trace}-{self.span_id:016x}-{self.flags:02x}"


def parse(text: str | None) -> Context | None:
    """Parse a `traceparent`; None if it is absent or malformed."""
    match = _FORM.fullmatch(text or "")
    if match is None or match[1] == "ff" or (match[1] == "00" and match[5]):
        return None
    found = Context(int(match[2], 16), int(match[3], 16), int(match[4], 16) & (SAMPLED | RANDOM))
    return found if found.trace_id and found.span_id else None


def continued(source: RunSource, traceparent: str | None) -> str | None:
    """Return the `traceparent` that a run continues, or None if its source starts many runs."""
    return None if source in MANY else traceparent


def of_run(run_id: str, parent: Context | None, max_attempts: int) -> Context:
    """The span from a run's making to its end; one that is begun again by hand is allowed more attempts."""
    trace = parent or Context(_name(16, run_id), 0)
    return replace(trace, span_id=_name(8, run_id, "run", max_attempts))


def of_attempt(run: Context, run_id: str, attempt: int) -> Context:
    """The span that the task is told; one that is handed back begins anew under the same number."""
    return replace(run, span_id=_name(8, run_id, "attempt", attempt))


def of_change(request: Context, trigger_id: str, revision: int) -> Context:
    """The span of the change that made a revision, in the request's trace."""
    return replace(request, span_id=_name(8, trigger_id, "revision", revision))


def _name(size: int, *of: object) -> int:
    return int.from_bytes(hashlib.sha256("/".join(map(str, of)).encode()).digest()[:size]) or 1

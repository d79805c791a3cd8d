"""What becomes of an occurrence whose trigger has runs that go on: the six overlap policies (X-09)."""

from typing import Final

from revisions.spec.trigger import OverlapPolicy

POLICIES: Final[tuple[str, ...]] = tuple(policy.value for policy in OverlapPolicy)
ONE_AT_A_TIME: Final = frozenset(POLICIES) - {"allow", "skip"}
"""A run with one of these waits until nothing else of its trigger is under way, and for those queued before it."""
DISPLACING: Final = frozenset({"cancel", "terminate"})
"""A run with one of these has what goes on of its trigger ended."""


def room(policy: str, live: int) -> int | None:
    """How many may start beside so many that go on, None for any number.

    `skip` lets one go on; `queue_one` lets one more wait.
    """
    match policy:
        case "skip":
            return max(0, 1 - live)
        case "queue_one":
            return max(0, 2 - live)
        case _ if policy in DISPLACING:
            return 1
        case _:
            return None

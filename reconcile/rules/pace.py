"""How much may start: L-02's settings."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Pace:
    """How much may start: L-02's settings. `execution_qps` 0 switches the rate limit off."""

    resync_interval: timedelta = timedelta(seconds=30)
    live_grace: timedelta = timedelta(seconds=60)
    max_catchup_runs_per_loop: int = 100
    execution_qps: float = 10.0
    execution_burst: int = 20

    @property
    def grace(self) -> timedelta:
        """Up to this age an occurrence is live: never less than two resync intervals (L-06)."""
        return max(self.live_grace, 2 * self.resync_interval)

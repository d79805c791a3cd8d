"""How often an address may fail to say who it is: so many at once, then one every few seconds (O-06)."""

import ipaddress
import threading
from collections import OrderedDict
from collections.abc import Callable

BURST = 10
EVERY_SECONDS = 6.0
"""Ten a minute in the long run."""
MOST_ADDRESSES = 10_000
"""The ones that failed longest ago are forgotten first, so that memory stays within bounds."""


class Throttle:
    """Counts failures by address, an IPv6 network of 64 bits being one, in this process; `monotonic` is in seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._full_until: OrderedDict[str, float] = OrderedDict()

    def wait_seconds(self, address: str) -> float:
        """How long an address has to wait before it is listened to again; 0 for one that may go on."""
        with self._lock:
            ahead = self._full_until.get(_network(address), 0.0) - self._monotonic()
        return max(0.0, ahead - (BURST - 1) * EVERY_SECONDS)

    def failed(self, address: str) -> None:
        """Counts one more failure."""
        key = _network(address)
        with self._lock:
            now = self._monotonic()
            self._full_until[key] = max(self._full_until.get(key, now), now) + EVERY_SECONDS
            self._full_until.move_to_end(key)
            while len(self._full_until) > MOST_ADDRESSES:
                self._full_until.popitem(last=False)


def _network(address: str) -> str:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((parsed, 64), strict=False)) if parsed.version == 6 else address

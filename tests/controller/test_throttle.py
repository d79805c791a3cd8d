"""How often an address may fail."""

from controller.throttle import BURST, EVERY_SECONDS, MOST_ADDRESSES, Throttle
from revisions.clock import HandClock
from tests.conftest import START


def test_a_burst_then_one_at_a_time() -> None:
    """O-06: ten at once, then one every six seconds; who stops is heard again."""
    clock = HandClock(START)
    throttle = Throttle(clock.monotonic)
    for _ in range(BURST):
        assert throttle.wait_seconds("192.0.2.1") == 0
        throttle.failed("192.0.2.1")
    assert 0 < throttle.wait_seconds("192.0.2.1") <= EVERY_SECONDS
    assert throttle.wait_seconds("192.0.2.2") == 0


def test_a_network_is_one_address() -> None:
    """O-06: whoever has one IPv6 address has 2^64 of them."""
    throttle = Throttle(HandClock(START).monotonic)
    for host in range(BURST):
        throttle.failed(f"2001:db8::{host:x}")
    assert throttle.wait_seconds("2001:db8::ffff") > 0
    assert throttle.wait_seconds("2001:db8:0:1::1") == 0


def test_memory_stays_within_bounds() -> None:
    """O-06: the addresses that failed longest ago are forgotten first."""
    throttle = Throttle(HandClock(START).monotonic)
    for _ in range(BURST):
        throttle.failed("oldest")
    for number in range(MOST_ADDRESSES):
        throttle.failed(f"a{number}")
    assert throttle.wait_seconds("oldest") == 0

"""Limit on wrong credentials per address."""

from controller.auth.access import BURST, EVERY_SECONDS, MOST_ADDRESSES, SignInLimit
from revisions.clock import HandClock
from tests.conftest import START


def test_a_burst_then_one_at_a_time() -> None:
    """O-06: ten at once, then one every six seconds; other addresses are not affected."""
    clock = HandClock(START)
    limit = SignInLimit(clock.monotonic)
    for _ in range(BURST):
        assert limit.wait_seconds("192.0.2.1") == 0
        limit.count_failure("192.0.2.1")
    assert 0 < limit.wait_seconds("192.0.2.1") <= EVERY_SECONDS
    assert limit.wait_seconds("192.0.2.2") == 0


def test_a_network_is_one_address() -> None:
    """O-06: an IPv6 /64 network counts as one address, since its holder can use all 2^64 of them."""
    limit = SignInLimit(HandClock(START).monotonic)
    for host in range(BURST):
        limit.count_failure(f"2001:db8::{host:x}")
    assert limit.wait_seconds("2001:db8::ffff") > 0
    assert limit.wait_seconds("2001:db8:0:1::1") == 0


def test_memory_stays_within_bounds() -> None:
    """O-06: the addresses that failed longest ago are dropped first."""
    limit = SignInLimit(HandClock(START).monotonic)
    for _ in range(BURST):
        limit.count_failure("oldest")
    for number in range(MOST_ADDRESSES):
        limit.count_failure(f"a{number}")
    assert limit.wait_seconds("oldest") == 0

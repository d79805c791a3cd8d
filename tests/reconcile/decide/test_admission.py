"""How tokens and the catch-up cap are shared out."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from reconcile.decide.admission import available, bucket, share_cap, share_tokens
from reconcile.schedule.fires import Fire

NOW = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


def at(second: float) -> datetime:
    return NOW + timedelta(seconds=second)


def starts(*seconds: float) -> list[Fire]:
    return [Fire(at(second), f"every/{second}", at(second)) for second in seconds]


@pytest.mark.parametrize(
    ("wants", "tokens", "granted"),
    [
        pytest.param([], 5, [], id="nobody wants any"),
        pytest.param([("a", starts(1, 2)), ("b", starts(1))], 3, [2, 1], id="enough for all"),
        pytest.param([("a", starts(1, 2)), ("b", starts(1))], 9, [2, 1], id="more than enough"),
        pytest.param([("a", starts(1)), ("b", starts(2))], 0, [0, 0], id="none"),
        pytest.param([("a", starts(2)), ("a", starts(1))], 1, [0, 1], id="the oldest of a project first"),
        pytest.param([("a", starts(1, 2, 3)), ("b", starts(9))], 2, [1, 1], id="projects take turns"),
        pytest.param([("a", starts(1, 2, 3)), ("b", starts(9))], 3, [2, 1], id="the rest to whom has more"),
        pytest.param([("a", starts(3, 4)), ("a", starts(1, 2)), ("b", starts(9))], 3, [0, 2, 1], id="three triggers"),
        pytest.param([("a", starts(5)), ("b", starts(1))], 1, [0, 1], id="of the first turns the oldest"),
        pytest.param([("a", starts(1)), ("b", starts(1))], 1, [1, 0], id="of equals the first"),
    ],
)
def test_tokens_go_round_the_projects(
    wants: Sequence[tuple[str, Sequence[Fire]]], tokens: int, granted: list[int]
) -> None:
    """L-09: a burst of one project does not starve another."""
    assert share_tokens(wants, tokens) == granted


@pytest.mark.parametrize(
    ("claimants", "cap", "shares"),
    [
        pytest.param(0, 10, [], id="nobody"),
        pytest.param(1, 10, [10], id="one"),
        pytest.param(3, 9, [3, 3, 3], id="even"),
        pytest.param(3, 11, [4, 4, 3], id="the rest to the first"),
        pytest.param(3, 1, [1, 0, 0], id="fewer than claimants"),
        pytest.param(2, 0, [0, 0], id="nothing"),
    ],
)
def test_the_catch_up_cap_is_shared_evenly(claimants: int, cap: int, shares: list[int]) -> None:
    """L-09: what does not come out even goes to those least recently served."""
    assert share_cap(claimants, cap) == shares


@pytest.mark.parametrize(
    ("empty_until", "tokens"),
    [
        pytest.param(None, 5, id="never used"),
        pytest.param(-60, 5, id="full again long ago"),
        pytest.param(0, 5, id="full right now"),
        pytest.param(0.5, 4, id="one taken"),
        pytest.param(0.6, 3, id="part of a token is none"),
        pytest.param(2.5, 0, id="empty"),
        pytest.param(60, 0, id="overdrawn"),
    ],
)
def test_a_bucket_fills_with_time(empty_until: float | None, tokens: int) -> None:
    """L-10: two a second, five at most."""
    stored = None if empty_until is None else at(empty_until)
    assert available(stored, NOW, per_second=2, burst=5) == tokens


@pytest.mark.parametrize(
    ("empty_until", "wanted", "reserve", "granted", "after"),
    [
        pytest.param(None, 3, 0, 3, 1.5, id="from a full one"),
        pytest.param(None, 9, 0, 5, 2.5, id="no more than there are"),
        pytest.param(1, 9, 0, 3, 2.5, id="from one partly used"),
        pytest.param(None, 9, 2, 3, 1.5, id="but for the reserve"),
        pytest.param(2, 9, 3, 0, 2, id="less than the reserve"),
        pytest.param(60, 9, 0, 0, 60, id="overdrawn"),
        pytest.param(-60, 0, 0, 0, 0, id="none wanted"),
    ],
)
def test_taking_tokens_moves_the_instant_at_which_the_bucket_is_full(
    empty_until: float | None, wanted: int, reserve: int, granted: int, after: float
) -> None:
    """L-10: by half a second each; one that was full counts from now."""
    stored = None if empty_until is None else at(empty_until)
    assert bucket(stored, NOW, wanted, per_second=2, burst=5, reserve=reserve) == (granted, at(after))


def test_tokens_come_back_one_by_one() -> None:
    """L-10: at thirds of a second, whatever rounding does to them."""
    _, full_at = bucket(None, NOW, 3, per_second=3, burst=3)
    held = [available(full_at, at(third / 3), per_second=3, burst=3) for third in range(5)]
    assert held == [0, 1, 2, 3, 3]
    assert bucket(None, NOW, 9, per_second=3, burst=3)[0] == 3

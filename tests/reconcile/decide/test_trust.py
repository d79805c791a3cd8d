"""Whose input is trusted."""

import pytest

from reconcile.decide.trust import allows_destructive, is_untrusted, warnings
from revisions.outcomes import RunSource
from tests.blocks import trigger_spec


@pytest.mark.parametrize(
    ("source", "untrusted"),
    [
        ("schedule", False),
        ("manual", False),
        ("backfill", False),
        ("event", True),
        ("webhook", True),
        ("file", True),
        ("table", True),
        ("process", True),
        ("one of a later release", True),
    ],
)
def test_input_from_outside_is_untrusted(source: str, untrusted: bool) -> None:
    """E-15: what nobody wrote who may deploy or fire; what is not known is not trusted."""
    assert is_untrusted(RunSource(source)) is untrusted


def test_whoever_deploys_is_told_that_runs_may_destroy() -> None:
    """E-15: off unless the trigger opts in."""
    assert allows_destructive(trigger_spec()) is False
    assert allows_destructive(trigger_spec(allow_destructive=True))


def test_allowing_destructive_tasks_is_warned_of() -> None:
    """E-15: at deploy."""
    assert list(warnings(trigger_spec(allow_destructive=False))) == []
    assert len(list(warnings(trigger_spec(allow_destructive=True)))) == 1

"""Whose input is trusted."""

import pytest

from reconcile.decide.authority import is_untrusted
from reconcile.report.outlook import destructive_warnings
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


def test_allowing_destructive_tasks_is_warned_of() -> None:
    """E-15: at deploy; it is off unless the trigger opts in."""
    assert list(destructive_warnings(trigger_spec())) == []
    assert len(list(destructive_warnings(trigger_spec(allow_destructive=True)))) == 1

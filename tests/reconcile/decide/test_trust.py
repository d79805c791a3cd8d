"""Whose input is trusted."""

import pytest

from reconcile.decide.trust import allows_destructive, is_untrusted
from revisions.outcomes import RunSource


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


@pytest.mark.parametrize(("spec", "allowed"), [({}, False), ({"allow_destructive": False}, False)])
def test_destroying_is_not_allowed_by_silence(spec: dict[str, bool], allowed: bool) -> None:
    """E-15: off unless the trigger opts in."""
    assert allows_destructive(spec) is allowed
    assert allows_destructive(spec | {"allow_destructive": True})

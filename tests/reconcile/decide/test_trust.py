"""Whose input is trusted."""

import pytest

from reconcile.decide.trust import allows_destructive, is_untrusted, warnings


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
    assert is_untrusted(source) is untrusted


@pytest.mark.parametrize(("spec", "allowed"), [({}, False), ({"allow_destructive": False}, False)])
def test_destroying_is_not_allowed_by_silence(spec: dict[str, bool], allowed: bool) -> None:
    """E-15: off unless the trigger opts in."""
    assert allows_destructive(spec) is allowed
    assert allows_destructive(spec | {"allow_destructive": True})


def test_whoever_lets_a_task_destroy_is_warned() -> None:
    """E-15: at deploy."""
    assert list(warnings({"allow_destructive": False})) == []
    assert list(warnings({"allow_destructive": True})) == [
        "spec.allow_destructive is on: its runs are told that they may destroy and overwrite, whoever caused them "
        "and whatever their input says; leave it out unless the task needs it"
    ]

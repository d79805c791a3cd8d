"""Enums of the words that tables store."""

import json

import pytest

from revisions import outcomes
from revisions.outcomes import OccurrenceOutcome, RunStatus, StoredWord

KINDS = [kind for kind in vars(outcomes).values() if isinstance(kind, type) and issubclass(kind, StoredWord)]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not StoredWord])
def test_a_stored_word_is_read_as_its_member(kind: type[StoredWord]) -> None:
    """R-19: JSON contains the word itself."""
    for member in kind:
        assert kind(member.value) is member
        assert json.dumps(member) == f'"{member.value}"'


def test_a_word_of_a_later_release_is_kept() -> None:
    """R-19: during a rolling upgrade rows may contain statuses that this release does not know."""
    unknown = RunStatus("suspended")
    assert isinstance(unknown, RunStatus)
    assert (str(unknown), f"{unknown}", unknown.value, json.dumps(unknown)) == (*["suspended"] * 3, '"suspended"')
    assert unknown == RunStatus("suspended")
    assert unknown not in list(RunStatus)
    assert unknown != RunStatus.RUNNING


def test_a_value_that_is_not_text_is_refused() -> None:
    """The columns of stored words are text and never null."""
    with pytest.raises(ValueError, match="None is not a valid"):
        OccurrenceOutcome(None)  # type: ignore[arg-type]

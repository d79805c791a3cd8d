"""Words that tables hold, as enums."""

import json

import pytest

from revisions import outcomes
from revisions.outcomes import OccurrenceOutcome, RunStatus, StoredWord

OPEN = [kind for kind in vars(outcomes).values() if isinstance(kind, type) and issubclass(kind, StoredWord)]


@pytest.mark.parametrize("kind", [kind for kind in OPEN if kind is not StoredWord])
def test_a_stored_word_is_read_as_its_member(kind: type[StoredWord]) -> None:
    """R-19: and written as the word."""
    for member in kind:
        assert kind(member.value) is member
        assert json.dumps(member) == f'"{member.value}"'


def test_a_word_of_a_later_release_stays_as_it_is() -> None:
    """R-19: during a rolling upgrade rows may hold statuses that this release does not know."""
    dreaming = RunStatus("dreaming")
    assert isinstance(dreaming, RunStatus)
    assert (str(dreaming), f"{dreaming}", dreaming.value, json.dumps(dreaming)) == (*["dreaming"] * 3, '"dreaming"')
    assert dreaming == RunStatus("dreaming")
    assert dreaming not in list(RunStatus)
    assert dreaming != RunStatus.RUNNING


def test_what_is_no_text_is_no_stored_word() -> None:
    """The column is text."""
    with pytest.raises(ValueError, match="None is not a valid"):
        OccurrenceOutcome(None)  # type: ignore[arg-type]

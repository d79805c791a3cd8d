"""How many runs an overlap policy lets start."""

import pytest

from reconcile.decide.admission import DISPLACING, ONE_AT_A_TIME, POLICIES, room


@pytest.mark.parametrize(
    ("policy", "rooms"),
    [
        pytest.param("allow", [None, None, None, None], id="allow: any number"),
        pytest.param("skip", [1, 0, 0, 0], id="skip: one goes on"),
        pytest.param("queue_one", [2, 1, 0, 0], id="queue_one: one goes on, one waits"),
        pytest.param("queue_all", [None, None, None, None], id="queue_all: any number waits"),
        pytest.param("cancel", [1, 1, 1, 1], id="cancel: one, for which the others end"),
        pytest.param("terminate", [1, 1, 1, 1], id="terminate: one, for which the others end"),
    ],
)
def test_the_policy_says_how_many_may_start_beside_those_that_go_on(policy: str, rooms: list[int | None]) -> None:
    """X-09: beside none, one, two and three."""
    assert [room(policy, live) for live in range(4)] == rooms


def test_policies_are_grouped_by_what_they_do_to_others() -> None:
    """X-09: which let one run at a time, and which of these end the others."""
    assert set(POLICIES) - ONE_AT_A_TIME == {"allow", "skip"}
    assert {"cancel", "terminate"} == DISPLACING
    assert DISPLACING < ONE_AT_A_TIME

"""Which jobs must come, go or be replaced."""

import pytest

from reconcile.decide.job_changes import JobChanges, diff


@pytest.mark.parametrize(
    ("desired", "jobs", "expected"),
    [
        pytest.param({}, {}, JobChanges((), (), ()), id="nothing"),
        pytest.param({"a": 1}, {"a": 1}, JobChanges((), (), ()), id="the same"),
        pytest.param({"a": 1, "b": 2}, {"b": 2}, JobChanges(("a",), (), ()), id="one comes"),
        pytest.param({"b": 2}, {"a": 1, "b": 2}, JobChanges((), (), ("a",)), id="one goes"),
        pytest.param({"a": 2}, {"a": 1}, JobChanges((), ("a",), ()), id="one is replaced"),
        pytest.param({"a": 1}, {"a": 2}, JobChanges((), ("a",), ()), id="one is replaced by an older one"),
        pytest.param({"a": 2, "b": 1}, {"a": 1, "c": 1}, JobChanges(("b",), ("a",), ("c",)), id="all at once"),
    ],
)
def test_jobs_become_what_the_database_says(
    desired: dict[str, int], jobs: dict[str, int], expected: JobChanges
) -> None:
    """L-01: nothing is touched that is as it should be."""
    found = diff(desired, jobs)
    assert found == expected
    assert bool(found) is (desired != jobs)

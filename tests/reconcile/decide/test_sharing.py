"""Which projects may use a scope of secrets."""

import pytest

from reconcile.decide.authority import Sharing

KEPT = Sharing({"billing": ["acme", "umbrella"]})


@pytest.mark.parametrize(
    ("scope", "project", "is_fault"),
    [
        pytest.param(None, "acme", False, id="no scope"),
        pytest.param("open", "acme", False, id="a scope that is open to all"),
        pytest.param("billing", "acme", False, id="one of its projects"),
        pytest.param("billing", "other", True, id="another project"),
    ],
)
def test_a_scope_may_be_kept_to_some_projects(scope: str | None, project: str, is_fault: bool) -> None:
    """X-12."""
    assert (KEPT.fault(scope, project) is not None) is is_fault
    assert Sharing().fault(scope, project) is None


def test_a_project_that_may_not_use_a_scope_is_told_the_way_out() -> None:
    """X-12."""
    fault = KEPT.fault("billing", "other")
    assert fault is not None
    assert fault.path == "spec.secret_scope"
    assert fault.message == "the secrets of scope billing are not for project other"
    assert "other" in fault.hint
    assert "secret_scopes" in fault.hint

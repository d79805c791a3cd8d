"""Roles within projects, and whether a trigger may start: as plain calls."""

import pytest

from reconcile.decide import authority
from reconcile.decide.authority import (
    ALL_RIGHTS,
    EVERYWHERE,
    NOWHERE,
    RUN_START,
    UNLIMITED,
    Grant,
    Reach,
    Rights,
    Role,
    grant_of,
    grants_text,
    refusal,
    rights_of,
    scopes_of,
)

ACME = Reach(frozenset({"acme"}))
CI = scopes_of("token:ci")


def test_each_role_may_do_what_the_ones_before_it_may() -> None:
    """O-06: viewer, operator, deployer, admin."""
    for held in Role:
        rights = Rights((Grant(held, EVERYWHERE),))
        allowed = [role for role in Role if rights.reach(role) == EVERYWHERE]
        assert allowed == [*Role][: held.rank + 1]
        assert all(rights.reach(role) == NOWHERE for role in set(Role) - set(allowed))


def test_roles_hold_within_their_projects() -> None:
    """O-06: several grants add up, project by project; what is in no project is reached from everywhere alone."""
    rights = Rights((Grant(Role.VIEWER, EVERYWHERE), Grant(Role.DEPLOYER, ACME)))
    assert rights.reach(Role.VIEWER) == EVERYWHERE
    assert rights.reach(Role.OPERATOR) == ACME
    assert rights.reach(Role.ADMIN) == NOWHERE
    assert [rights.role_in(project) for project in ("acme", "other")] == [Role.DEPLOYER, Role.VIEWER]
    assert [ACME.covers(project) for project in ("acme", "other", None)] == [True, False, False]
    assert EVERYWHERE.covers(None)


def test_grants_are_read_as_they_were_written() -> None:
    """O-06: also those of the settings."""
    for rights in (Rights(), ALL_RIGHTS, Rights((Grant(Role.VIEWER, ACME), Grant(Role.OPERATOR, EVERYWHERE)))):
        read = rights_of(grants_text(rights.grants))
        assert set(read.grants) == set(rights.grants)
    assert grant_of("deployer:acme, other") == Grant(Role.DEPLOYER, Reach(frozenset({"acme", "other"})))
    assert grant_of("viewer") == Grant(Role.VIEWER, EVERYWHERE)
    for text in ("owner", "viewer:", "viewer: , ", ""):
        with pytest.raises(ValueError, match="is no grant"):
            grant_of(text)


@pytest.mark.parametrize(
    ("wanted", "scopes", "has", "told"),
    [
        ([RUN_START], UNLIMITED, None, None),
        ([], UNLIMITED, None, "scopes do not hold run.start"),
        ([], CI, Role.ADMIN, "scopes do not hold run.start"),
        ([RUN_START], CI, None, "token:ci has no access to acme any more"),
        ([RUN_START], CI, Role.VIEWER, "token:ci is only viewer in acme now"),
        ([RUN_START], CI, Role.OPERATOR, None),
        ([RUN_START], CI, Role.DEPLOYER, None),
    ],
)
def test_a_trigger_acts_with_what_its_author_has_now(
    wanted: list[str], scopes: str, has: Role | None, told: str | None
) -> None:
    """X-15: its own scopes first, then the author's rights; what keeps it back says what to do."""
    rights = Rights((Grant(has, ACME),)) if has else Rights()
    why = refusal(wanted, scopes, "acme", {"token:ci": rights})
    if told is None:
        assert why is None
    else:
        assert why is not None
        assert told in why
        assert "deploy" in why


def test_a_run_may_manage_triggers_of_its_project_and_no_more_than_its_author() -> None:
    """X-13: a deployer at most, and less where the author is less now."""
    for has, expected in ((Role.ADMIN, Role.DEPLOYER), (Role.VIEWER, Role.VIEWER), (None, None)):
        given = {"token:ci": Rights((Grant(has, EVERYWHERE),)) if has else Rights()}
        rights = authority.of_run("acme", CI, given)
        assert (rights.role_in("acme"), rights.role_in("other")) == (expected, None)
    assert authority.of_run("acme", UNLIMITED, {}).role_in("acme") is Role.DEPLOYER

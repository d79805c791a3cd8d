"""Signing in at the page with a keyboard, in a real browser."""

import pytest
from playwright.sync_api import Page

from reconcile.decide.authority import EVERYWHERE, Grant, Role
from reconcile.observations.observation import Observations
from reconcile.triggers.caller import Caller
from reconcile.triggers.credentials import create_token
from revisions.store.database import Database
from tests.browser.reader import Reader
from tests.world import World


@pytest.fixture
def secret(database: Database) -> str:
    """A viewer's token, with which access is controlled."""
    return create_token(
        database, Observations(), "ann", Grant(Role.VIEWER, EVERYWHERE), None, EVERYWHERE, Caller("root")
    ).secret


def test_a_person_signs_in_reads_and_signs_out(world: World, reader: Reader, secret: str) -> None:
    """O-06, U-04: the form leads on to the page that was asked for, which stays live; no script sees the token."""
    world.create("tick")
    page: Page = reader.page
    assert reader.open("/?project=acme") == 401
    reader.complaints.clear()  # the browser says in its console, too, that it was refused
    page.get_by_label("Token").fill(secret)
    page.keyboard.press("Enter")
    page.wait_for_url("**/?project=acme")
    reader.row("tick").wait_for()
    assert page.evaluate("document.cookie") == ""
    world.create("tock")
    reader.wait_a_turn()
    reader.row("tock").wait_for()
    assert "ann" in page.get_by_role("banner").inner_text()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/sign-in")
    assert reader.open("/") == 401
    reader.complaints.clear()

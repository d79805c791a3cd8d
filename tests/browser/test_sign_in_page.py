"""Signing in with the keyboard in a real browser."""

import pytest
from playwright.sync_api import Page

from reconcile.decide.authority import EVERYWHERE, Caller, Grant, Role
from reconcile.observations.observation import Observations
from reconcile.triggers.credentials import create_token
from revisions.store.database import Database
from tests.browser.reader import Reader
from tests.world import World


@pytest.fixture
def secret(database: Database) -> str:
    """A viewer's token; access control is on from the first token on."""
    return create_token(
        database, Observations(), "ann", Grant(Role.VIEWER, EVERYWHERE), None, EVERYWHERE, Caller("root")
    ).secret


def test_a_person_signs_in_reads_and_signs_out(world: World, reader: Reader, secret: str) -> None:
    """O-06, U-04: after signing in the wanted page opens and updates itself; scripts cannot read the token."""
    world.create("tick")
    page: Page = reader.page
    assert reader.open("/?project=acme") == 401
    reader.console_messages.clear()  # the browser reports the 401 in its console
    page.get_by_label("Token").fill(secret)
    page.keyboard.press("Enter")
    page.wait_for_url("**/?project=acme")
    reader.row("tick").wait_for()
    assert page.evaluate("document.cookie") == ""
    world.create("tock")
    reader.pass_interval()
    reader.row("tock").wait_for()
    assert "ann" in page.get_by_role("banner").inner_text()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/sign-in")
    assert reader.open("/") == 401
    reader.console_messages.clear()

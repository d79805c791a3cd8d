"""Signing in at the page: a token goes into a cookie, with which only our own pages may change something."""

from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI

from controller.app import create_app
from controller.services import Services
from controller.web import pages
from reconcile.decide.authority import EVERYWHERE, Grant, Reach, Role
from reconcile.triggers.caller import Caller
from reconcile.triggers.credentials import create_token
from tests.controller.conftest import Network

PAGE = {"Accept": "text/html"}
OWN = {"Origin": "http://test"}


@pytest.fixture
def app(services: Services) -> FastAPI:
    app = create_app(services)
    pages.install(app)
    return app


@pytest.fixture
def secret(services: Services) -> str:
    return create_token(
        services.database,
        services.observations,
        "ann",
        Grant(Role.OPERATOR, EVERYWHERE),
        None,
        EVERYWHERE,
        Caller("root"),
    ).secret


@pytest.fixture
def browser(app: FastAPI) -> Iterator[httpx.Client]:
    """What keeps cookies and says from which page it sends."""
    with httpx.Client(transport=Network(app), base_url="http://test", headers=PAGE) as client:
        yield client


def sign_in(browser: httpx.Client, token: str, following: str = "/", origin: str = "http://test") -> httpx.Response:
    return browser.post("/sign-in", data={"token": token, "next": following}, headers={"Origin": origin})


def test_a_stranger_is_asked_for_a_token_where_he_wanted_to_go(browser: httpx.Client, secret: str) -> None:
    """O-06: 401 with the form in it, which leads on to the page that was asked for."""
    asked = browser.get("/?project=acme")
    assert asked.status_code == 401
    assert 'name="token"' in asked.text
    assert 'value="/?project=acme"' in asked.text
    assert asked.headers["WWW-Authenticate"].startswith("Bearer")


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(browser: httpx.Client, secret: str) -> None:
    """O-06: HttpOnly, SameSite=Strict, for this session; Secure where the browser came over TLS."""
    answer = sign_in(browser, secret, "/?project=acme")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/?project=acme")
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Secure" not in cookie
    assert "max-age" not in cookie.lower()
    shown = browser.get("/")
    assert shown.status_code == 200
    assert "Signed in as" in shown.text
    secure = browser.post("https://test/sign-in", data={"token": secret}, headers={"Origin": "https://test"})
    assert "Secure" in secure.headers["Set-Cookie"]


def test_a_wrong_token_is_told_and_kept_nowhere(browser: httpx.Client, secret: str) -> None:
    """O-06: and it counts against the address like any other."""
    answers = [sign_in(browser, "tct_wrong") for _ in range(11)]
    assert [answer.status_code for answer in answers] == [401] * 10 + [429]
    assert "Set-Cookie" not in answers[0].headers
    assert "revoked or has expired" in answers[0].text


def test_only_our_own_pages_change_something_with_the_cookie(browser: httpx.Client, secret: str) -> None:
    """O-06: no other site's, none of another port of this host, and nobody who does not say whose page it is."""
    sign_in(browser, secret)
    for headers in ({}, {"Origin": "http://test:81"}, {"Origin": "https://evil.example"}, {"Origin": "null"}):
        refused = browser.post("/api/v1/freeze", json={"reason": "r"}, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden"), headers
    assert browser.post("/api/v1/freeze", json={"reason": "r"}, headers=OWN).json()["owner"] == "ann"


def test_another_site_signs_nobody_in(browser: httpx.Client, secret: str) -> None:
    """O-06: into an account of its own, say."""
    assert sign_in(browser, secret, origin="https://evil.example").status_code == 403
    assert browser.post("/sign-out").status_code == 403


def test_who_does_not_say_from_where_he_signs_in_is_told_how(browser: httpx.Client, secret: str) -> None:
    """O-06: a script, for every browser says it."""
    said = {"token": secret}
    refused = browser.post("/sign-in", data=said, headers={"Accept": "application/json"})
    assert refused.status_code == 403
    assert "says Origin: http://127.0.0.1:8080" in refused.json()["errors"][0]["hint"]
    assert browser.post("/sign-in", data=said, headers={"Origin": "http://127.0.0.1:8080"}).status_code == 303


@pytest.mark.parametrize(
    "address",
    [
        "https://evil.example",
        "//evil.example",
        "////evil.example",
        "///",
        "/\\evil.example",
        "/\t/evil.example",
        "//[",
        "javascript:1",
        "",
    ],
)
def test_the_way_on_stays_on_this_site(browser: httpx.Client, secret: str, address: str) -> None:
    """O-06: a link with another address behind it leads to the beginning."""
    assert sign_in(browser, secret, address).headers["Location"] == "/"


@pytest.mark.parametrize("content", [b"&a=b" * 10_000, b"token=" + b"x" * 64 * 1024], ids=["many fields", "long"])
def test_what_our_form_never_sends_is_not_read(browser: httpx.Client, secret: str, content: bytes) -> None:
    """O-06: anybody may send it, and whatever is made of it is made between the requests of all others."""
    headers = OWN | {"Accept": "application/json"}
    refused = browser.post("/sign-in", content=content, headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (400, "malformed")


def test_signing_out_forgets_the_token(browser: httpx.Client, secret: str) -> None:
    """O-06: in this browser."""
    sign_in(browser, secret)
    assert browser.post("/sign-out", headers=OWN).status_code == 303
    assert browser.get("/").status_code == 401


def test_what_is_beyond_ones_role_is_a_page_that_says_so(browser: httpx.Client, services: Services) -> None:
    """O-06: 403 with words, for whoever is signed in."""
    of_other = Grant(Role.VIEWER, Reach(frozenset({"other"})))
    token = create_token(
        services.database, services.observations, "bob", of_other, None, EVERYWHERE, Caller("root")
    ).secret
    sign_in(browser, token)
    refused = browser.get("/triggers/acme/production/report/tick")
    assert refused.status_code == 403
    assert "bob is not viewer in acme" in refused.text

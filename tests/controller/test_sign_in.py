"""Signing in at the page: the token is stored in a cookie, with which only the controller's own pages make changes."""

from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI

from controller.app import create_app
from controller.services import Services
from controller.web import pages
from reconcile.decide.authority import EVERYWHERE, Caller, Grant, Reach, Role
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
    """Client that keeps cookies as a browser does."""
    with httpx.Client(transport=Network(app), base_url="http://test", headers=PAGE) as client:
        yield client


def sign_in(browser: httpx.Client, token: str, following: str = "/", origin: str = "http://test") -> httpx.Response:
    return browser.post("/sign-in", data={"token": token, "next": following}, headers={"Origin": origin})


def test_a_page_without_a_credential_shows_the_sign_in_form(browser: httpx.Client, secret: str) -> None:
    """O-06: 401 with the form, which leads on to the requested page."""
    asked = browser.get("/?project=acme")
    assert asked.status_code == 401
    assert 'name="token"' in asked.text
    assert 'value="/?project=acme"' in asked.text
    assert asked.headers["WWW-Authenticate"].startswith("Bearer")


def test_scripts_and_other_sites_cannot_use_the_cookie(browser: httpx.Client, secret: str) -> None:
    """O-06: HttpOnly, SameSite=Strict, for this browser session; Secure over TLS."""
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


def test_a_wrong_token_is_refused_and_not_stored(browser: httpx.Client, secret: str) -> None:
    """O-06: it counts against the limit of wrong credentials per address."""
    answers = [sign_in(browser, "tct_wrong") for _ in range(11)]
    assert [answer.status_code for answer in answers] == [401] * 10 + [429]
    assert "Set-Cookie" not in answers[0].headers
    assert "revoked or has expired" in answers[0].text


def test_only_own_pages_make_changes_with_the_cookie(browser: httpx.Client, secret: str) -> None:
    """O-06: requests from other sites, from other ports of this host, and without Origin are refused."""
    sign_in(browser, secret)
    for headers in ({}, {"Origin": "http://test:81"}, {"Origin": "https://evil.example"}, {"Origin": "null"}):
        refused = browser.post("/api/v1/freeze", json={"reason": "r"}, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden"), headers
    assert browser.post("/api/v1/freeze", json={"reason": "r"}, headers=OWN).json()["owner"] == "ann"


def test_another_site_cannot_sign_a_user_in_or_out(browser: httpx.Client, secret: str) -> None:
    """O-06: it could otherwise sign the user in to its own account."""
    assert sign_in(browser, secret, origin="https://evil.example").status_code == 403
    assert browser.post("/sign-out").status_code == 403


def test_a_sign_in_without_origin_is_refused_with_a_hint(browser: httpx.Client, secret: str) -> None:
    """O-06: only programs omit Origin; the hint names the value to send."""
    fields = {"token": secret}
    refused = browser.post("/sign-in", data=fields, headers={"Accept": "application/json"})
    assert refused.status_code == 403
    assert "says Origin: http://127.0.0.1:8080" in refused.json()["errors"][0]["hint"]
    assert browser.post("/sign-in", data=fields, headers={"Origin": "http://127.0.0.1:8080"}).status_code == 303


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
def test_sign_in_leads_to_this_site_only(browser: httpx.Client, secret: str, address: str) -> None:
    """O-06: any other address leads to the first page."""
    assert sign_in(browser, secret, address).headers["Location"] == "/"


@pytest.mark.parametrize("content", [b"&a=b" * 10_000, b"token=" + b"x" * 64 * 1024], ids=["many fields", "long"])
def test_a_body_unlike_the_form_is_not_parsed(browser: httpx.Client, secret: str, content: bytes) -> None:
    """O-06: anybody may send one, and parsing it in the event loop would delay all other requests."""
    headers = OWN | {"Accept": "application/json"}
    refused = browser.post("/sign-in", content=content, headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (400, "malformed")


def test_signing_out_deletes_the_cookie(browser: httpx.Client, secret: str) -> None:
    """O-06: further requests of this browser have no credential."""
    sign_in(browser, secret)
    assert browser.post("/sign-out", headers=OWN).status_code == 303
    assert browser.get("/").status_code == 401


def test_a_missing_role_is_an_error_page(browser: httpx.Client, services: Services) -> None:
    """O-06: 403, with the role that is missing."""
    of_other = Grant(Role.VIEWER, Reach(frozenset({"other"})))
    token = create_token(
        services.database, services.observations, "bob", of_other, None, EVERYWHERE, Caller("root")
    ).secret
    sign_in(browser, token)
    refused = browser.get("/triggers/acme/production/report/tick")
    assert refused.status_code == 403
    assert "bob is not viewer in acme" in refused.text

"""People whom an issuer vouches for: what of its tokens is taken, what is refused, and what they may do."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from controller import settings
from controller.app import create_app
from controller.services import Services
from reconcile.observations.observation import Observations
from revisions.clock import HandClock
from revisions.store.database import Database
from tests.controller.asking import IS_NEW, Api, T, manifest, task_manifest
from tests.controller.conftest import Network
from tests.controller.issuer import AUDIENCE, Issuer
from tests.waiting import PATIENCE

GRANTS = {"platform": "admin", "team-a": "deployer:acme", "guests": "viewer:acme,other"}


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as issuer:
        yield issuer


@pytest.fixture
def now(clock: HandClock) -> datetime:
    return clock.now()


@pytest.fixture
def api(database: Database, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """The API with the issuer in its settings, for whom it waits as long as it takes."""
    monkeypatch.setattr("controller.auth.oidc.TIMEOUT_SECONDS", PATIENCE)
    with served(database, issuer, timedelta(0)) as api:
        yield api


@contextmanager
def served(database: Database, issuer: Issuer, key_wait: timedelta) -> Iterator[Api]:
    given = {"oidc_issuer": issuer.url, "oidc_audience": AUDIENCE, "oidc_grants": GRANTS, "oidc_key_wait": key_wait}
    app = create_app(Services.over(database, settings.load(**given), Observations()))
    with httpx.Client(transport=Network(app), base_url="http://test") as client:
        yield Api(client)


def ask(api: Api, token: str) -> httpx.Response:
    return api.client.get("/api/v1/triggers", headers={"Authorization": f"Bearer {token}"})


def test_claims_become_role_and_projects(api: Api, issuer: Issuer, now: datetime) -> None:
    """O-06: by the settings; the actor is whom the token is of, and what no setting grants is nothing."""
    bearer = {"Authorization": f"Bearer {issuer.token(now, groups=['team-a', 'unknown'])}"}
    assert api.put("/tasks/acme/production/report/v1", task_manifest(), bearer).status_code == 201
    made = api.put(T, manifest(), IS_NEW | bearer)
    assert (made.status_code, made.json()["changed_by"]) == (201, "oidc:ann")
    assert api.put("/tasks/other/production/report/v1", task_manifest(), bearer).status_code == 403
    for groups in (None, [], ["unknown"], "unknown", {"team-a": True}, [["team-a"]]):
        assert ask(api, issuer.token(now, groups=groups)).status_code == 403, groups
    assert ask(api, issuer.token(now, groups="guests")).status_code == 200


def test_without_a_token_nobody_gets_in(api: Api) -> None:
    """O-06: an issuer in the settings is enough to control access."""
    assert api.get("/triggers").status_code == 401


def test_keys_are_found_once_and_kept(api: Api, issuer: Issuer, now: datetime) -> None:
    """O-06: discovery and keys are asked for when they are first needed, not with every request."""
    for _ in range(3):
        assert ask(api, issuer.token(now, groups=["guests"])).status_code == 200
    assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]


def test_a_rotated_key_is_fetched_and_the_old_one_is_refused(api: Api, issuer: Issuer, now: datetime) -> None:
    """O-06: a token that names a key of which nothing is known has the keys asked for again."""
    old = issuer.token(now, groups=["guests"])
    assert ask(api, old).status_code == 200
    issuer.rotate("second")
    assert ask(api, issuer.token(now, groups=["guests"])).status_code == 200
    assert ask(api, old).status_code == 401


def unsigned(claims: dict[str, Any]) -> str:
    parts = ({"alg": "none", "typ": "JWT", "kid": "first"}, claims)
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


def test_what_is_refused(api: Api, issuer: Issuer, now: datetime, clock: HandClock) -> None:
    """O-06: wrong audience and issuer, expired, to come, unsigned, signed by others or with what everybody knows."""
    stranger, hour = Issuer(), timedelta(hours=1)
    claims = {"iss": issuer.url, "aud": AUDIENCE, "sub": "ann", "exp": (now + hour).timestamp(), "groups": ["guests"]}
    good = issuer.token(now, groups=["guests"])
    head, body, signature = good.split(".")
    wrong = {
        "another audience": issuer.token(now, groups=["guests"], aud="billing"),
        "no audience": issuer.token(now, groups=["guests"], aud=None),
        "another issuer": issuer.token(now, groups=["guests"], iss="https://elsewhere.example"),
        "expired": issuer.token(now - 2 * hour, groups=["guests"]),
        "without an end": issuer.token(now, groups=["guests"], exp=None),
        "to come": issuer.token(now, groups=["guests"], nbf=now + hour),
        "alg none": unsigned(claims),
        "a key of its own": issuer.token(now, groups=["guests"], key=stranger.keys["first"]),
        "altered": f"{head}.{body}.{signature[:-4]}AAAA",
    }
    more = {
        "an unknown key": issuer.token(now, groups=["guests"], headers={"kid": "third"}),
        "no key": issuer.token(now, groups=["guests"], headers={"kid": None}),
        "a shared secret": issuer.token(now, groups=["guests"], key="x" * 32, headers={"alg": "HS256"}),
        "nobody": issuer.token(now, groups=["guests"], sub=None),
        "an empty name": issuer.token(now, groups=["guests"], sub=" "),
    }
    times = {
        str(end)[:20]: issuer.token(now, groups=["guests"], exp=end) for end in (float("nan"), 1e300, 10**400, "1")
    }
    for part in (wrong, more, times):
        clock.advance(timedelta(minutes=2))  # what one address may fail is bounded
        for name, token in part.items():
            refused = ask(api, token)
            assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated"), name


def test_an_issuer_that_cannot_be_asked_is_no_fault_of_the_token(
    database: Database, clock: HandClock, issuer: Issuer
) -> None:
    """O-06: 503, and nothing is counted against the address."""
    chosen = settings.load(oidc_issuer="http://127.0.0.1:9", oidc_audience=AUDIENCE)
    app = create_app(Services.over(database, chosen, Observations()))
    with httpx.Client(transport=Network(app), base_url="http://test") as client:
        asked = [ask(Api(client), issuer.token(clock.now())) for _ in range(12)]
    assert {(answer.status_code, answer.json()["code"]) for answer in asked} == {(503, "unavailable")}


def test_an_issuer_that_fails_is_left_alone_for_a_while(
    database: Database, clock: HandClock, issuer: Issuer, now: datetime
) -> None:
    """O-06: so that whoever sends tokens cannot have it asked, and everybody wait, over and over."""
    issuer.status = 500
    token = issuer.token(now, groups=["guests"])
    with served(database, issuer, timedelta(seconds=10)) as api:
        assert [ask(api, token).status_code for _ in range(3)] == [503] * 3
        assert len(issuer.asked) == 1
        issuer.status = 200
        clock.advance(timedelta(seconds=10))
        assert ask(api, token).status_code == 200


def test_known_keys_count_while_the_issuer_fails(database: Database, issuer: Issuer, now: datetime) -> None:
    """O-06: a token with a key that nobody knows keeps nobody else out."""
    good = issuer.token(now, groups=["guests"])
    with served(database, issuer, timedelta(0)) as api:
        assert ask(api, good).status_code == 200
        issuer.status = 500
        assert ask(api, issuer.token(now, headers={"kid": "third"})).status_code == 503
        assert ask(api, good).status_code == 200


def test_keys_are_taken_from_a_protected_place_alone(api: Api, issuer: Issuer, now: datetime) -> None:
    """O-06: the issuer's discovery is no reason to take keys that anybody on the way may have put there."""
    issuer.keys_at = "http://keys.example/keys"
    refused = ask(api, issuer.token(now, groups=["guests"]))
    assert (refused.status_code, "http://keys.example/keys, which is not https" in refused.json()["detail"]) == (
        503,
        True,
    )

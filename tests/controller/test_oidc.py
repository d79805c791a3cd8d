"""Sign-in with tokens of an OpenID Connect issuer: accepted claims, refused tokens, failures of the issuer."""

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
    """The API with the issuer in its settings. It asks a failed issuer again at once."""
    monkeypatch.setattr("controller.auth.oidc.TIMEOUT_SECONDS", PATIENCE)
    with serve_api(database, issuer, timedelta(0)) as api:
        yield api


@contextmanager
def serve_api(database: Database, issuer: Issuer, key_wait: timedelta) -> Iterator[Api]:
    options = {"oidc_issuer": issuer.url, "oidc_audience": AUDIENCE, "oidc_grants": GRANTS, "oidc_key_wait": key_wait}
    app = create_app(Services.over(database, settings.load(**options), Observations()))
    with httpx.Client(transport=Network(app), base_url="http://test") as client:
        yield Api(client)


def list_triggers(api: Api, token: str) -> httpx.Response:
    return api.client.get("/api/v1/triggers", headers={"Authorization": f"Bearer {token}"})


def test_claims_become_role_and_projects(api: Api, issuer: Issuer, now: datetime) -> None:
    """O-06: `oidc_grants` maps groups to roles; the actor is the subject; an unknown group grants nothing."""
    bearer = {"Authorization": f"Bearer {issuer.token(now, groups=['team-a', 'unknown'])}"}
    assert api.put("/tasks/acme/production/report/v1", task_manifest(), bearer).status_code == 201
    created = api.put(T, manifest(), IS_NEW | bearer)
    assert (created.status_code, created.json()["changed_by"]) == (201, "oidc:ann")
    assert api.put("/tasks/other/production/report/v1", task_manifest(), bearer).status_code == 403
    for groups in (None, [], ["unknown"], "unknown", {"team-a": True}, [["team-a"]]):
        assert list_triggers(api, issuer.token(now, groups=groups)).status_code == 403, groups
    assert list_triggers(api, issuer.token(now, groups="guests")).status_code == 200


def test_a_configured_issuer_turns_access_control_on(api: Api) -> None:
    """O-06: without a token a request is answered 401."""
    assert api.get("/triggers").status_code == 401


def test_keys_are_fetched_once(api: Api, issuer: Issuer, now: datetime) -> None:
    """O-06: discovery and keys are requested at the first token, not with every request."""
    for _ in range(3):
        assert list_triggers(api, issuer.token(now, groups=["guests"])).status_code == 200
    assert issuer.requests == ["/.well-known/openid-configuration", "/keys"]


def test_a_rotated_key_is_fetched_and_the_old_one_is_refused(api: Api, issuer: Issuer, now: datetime) -> None:
    """O-06: a token that names an unknown key makes the keys be fetched again."""
    old = issuer.token(now, groups=["guests"])
    assert list_triggers(api, old).status_code == 200
    issuer.rotate("second")
    assert list_triggers(api, issuer.token(now, groups=["guests"])).status_code == 200
    assert list_triggers(api, old).status_code == 401


def unsigned_token(claims: dict[str, Any]) -> str:
    parts = ({"alg": "none", "typ": "JWT", "kid": "first"}, claims)
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


def test_an_invalid_token_is_refused(api: Api, issuer: Issuer, now: datetime, clock: HandClock) -> None:
    """O-06: wrong audience or issuer, expired, not yet valid, unsigned, or signed with another key."""
    stranger, hour = Issuer(), timedelta(hours=1)
    claims = {"iss": issuer.url, "aud": AUDIENCE, "sub": "ann", "exp": (now + hour).timestamp(), "groups": ["guests"]}
    good = issuer.token(now, groups=["guests"])
    header, body, signature = good.split(".")
    first_batch = {
        "another audience": issuer.token(now, groups=["guests"], aud="billing"),
        "no audience": issuer.token(now, groups=["guests"], aud=None),
        "another issuer": issuer.token(now, groups=["guests"], iss="https://elsewhere.example"),
        "expired": issuer.token(now - 2 * hour, groups=["guests"]),
        "no expiry": issuer.token(now, groups=["guests"], exp=None),
        "not yet valid": issuer.token(now, groups=["guests"], nbf=now + hour),
        "alg none": unsigned_token(claims),
        "a stranger's key": issuer.token(now, groups=["guests"], key=stranger.keys["first"]),
        "altered": f"{header}.{body}.{signature[:-4]}AAAA",
    }
    second_batch = {
        "an unknown key": issuer.token(now, groups=["guests"], headers={"kid": "third"}),
        "no key": issuer.token(now, groups=["guests"], headers={"kid": None}),
        "a shared secret": issuer.token(now, groups=["guests"], key="x" * 32, headers={"alg": "HS256"}),
        "no subject": issuer.token(now, groups=["guests"], sub=None),
        "an empty subject": issuer.token(now, groups=["guests"], sub=" "),
    }
    third_batch = {
        str(end)[:20]: issuer.token(now, groups=["guests"], exp=end) for end in (float("nan"), 1e300, 10**400, "1")
    }
    for batch in (first_batch, second_batch, third_batch):
        clock.advance(timedelta(minutes=2))  # an address may send ten wrong credentials a minute
        for name, token in batch.items():
            refused = list_triggers(api, token)
            assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated"), name


def test_an_unreachable_issuer_is_not_counted_as_a_wrong_credential(
    database: Database, clock: HandClock, issuer: Issuer
) -> None:
    """O-06: each request is answered 503, however many come from one address."""
    options = settings.load(oidc_issuer="http://127.0.0.1:9", oidc_audience=AUDIENCE)
    app = create_app(Services.over(database, options, Observations()))
    with httpx.Client(transport=Network(app), base_url="http://test") as client:
        answers = [list_triggers(Api(client), issuer.token(clock.now())) for _ in range(12)]
    assert {(answer.status_code, answer.json()["code"]) for answer in answers} == {(503, "unavailable")}


def test_a_failed_issuer_is_asked_again_only_after_the_wait(
    database: Database, clock: HandClock, issuer: Issuer, now: datetime
) -> None:
    """O-06: otherwise anybody could send tokens to have the issuer asked, and requests wait, over and over."""
    issuer.status = 500
    token = issuer.token(now, groups=["guests"])
    with serve_api(database, issuer, timedelta(seconds=10)) as api:
        assert [list_triggers(api, token).status_code for _ in range(3)] == [503] * 3
        assert len(issuer.requests) == 1
        issuer.status = 200
        clock.advance(timedelta(seconds=10))
        assert list_triggers(api, token).status_code == 200


def test_known_keys_are_accepted_while_the_issuer_fails(database: Database, issuer: Issuer, now: datetime) -> None:
    """O-06: a token with an unknown key does not lock out tokens with a known key."""
    good = issuer.token(now, groups=["guests"])
    with serve_api(database, issuer, timedelta(0)) as api:
        assert list_triggers(api, good).status_code == 200
        issuer.status = 500
        assert list_triggers(api, issuer.token(now, headers={"kid": "third"})).status_code == 503
        assert list_triggers(api, good).status_code == 200


def test_keys_are_only_fetched_over_https(api: Api, issuer: Issuer, now: datetime) -> None:
    """O-06: over plain HTTP anybody on the network could replace the keys."""
    issuer.keys_at = "http://keys.example/keys"
    refused = list_triggers(api, issuer.token(now, groups=["guests"]))
    assert (refused.status_code, "http://keys.example/keys, which is not https" in refused.json()["detail"]) == (
        503,
        True,
    )

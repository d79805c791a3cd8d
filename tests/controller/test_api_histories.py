"""Histories verified, rebuilt and moved over HTTP."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request

from controller import settings
from controller.api.bodies import upload
from controller.app import create_app
from controller.errors import TooLarge
from controller.services import Services
from revisions.history.checkpoints import PrivateKey
from revisions.store.database import Database
from tests import tampering
from tests.controller.asking import NAME, Api, T, at, manifest
from tests.controller.conftest import Network

KEY = PrivateKey.fresh()
LINES = {"Accept": "application/x-ndjson"}


@pytest.fixture
def signing(database: Database, tmp_path: Path) -> Api:
    """The API of a controller that has a key."""
    path = tmp_path / "key"
    path.write_text(KEY.text)
    services = Services.over(database, settings.load(checkpoint_key_file=path))
    return Api(httpx.Client(transport=Network(create_app(services)), base_url="http://test"))


def lived(api: Api) -> None:
    api.create()
    api.put(T, manifest(description="other"), at(1))


def test_a_sound_and_a_broken_history(api: Api, database: Database) -> None:
    """R-10: the report names trigger, revision and what differs; broken is an answer, not an error."""
    lived(api)
    sound = api.get("/verify")
    assert sound.status_code == 200
    assert sound.json() == {
        "sound": True,
        "triggers": 1,
        "revisions": 2,
        "broken": 0,
        "breaks": [],
        "guards_missing": [],
        "checkpoint": None,
    }
    tampering.edit(database, 2, actor="mallory")
    broken = api.get("/verify", trigger=NAME).json()
    assert (broken["sound"], broken["broken"]) == (False, 1)
    found = broken["breaks"][0]
    assert (found["trigger"], found["revision"], found["what"]) == (NAME, 2, "content")
    assert found["expected"] != found["found"]
    assert api.get("/verify", trigger="acme/production/report/none").status_code == 404
    assert api.get("/verify", trigger="x").status_code == 422


def test_progress_for_clients_that_accept_it(api: Api, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """U-01: lines of JSON, the last of them the answer, or the problem."""
    lived(api)
    monkeypatch.setattr("controller.api.answers.PROGRESS_SECONDS", 0)
    answer = api.client.get("/api/v1/verify", headers=LINES)
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert lines[0] == {"progress": {"done": 2, "total": 2}}
    assert lines[-1] == {"answer": api.get("/verify").json()}
    tampering.edit(database, 1, reason="x")
    answer = api.client.post("/api/v1/rebuild", headers=LINES)
    assert json.loads(answer.text.splitlines()[-1])["problem"]["code"] == "conflict"
    assert api.post("/rebuild").status_code == 409


def test_rebuilding(api: Api, database: Database) -> None:
    """R-11: GET shows, POST applies."""
    lived(api)
    tampering.execute(database, "UPDATE triggers SET active = NOT active")
    shown = api.get("/rebuild").json()
    assert shown["differences"] == [
        {"table": "triggers", "name": NAME, "field": "active", "expected": True, "found": False}
    ]
    assert api.get(T).json()["active"] is False
    assert api.post("/rebuild").json() == shown | {"applied": True}
    assert api.get(T).json()["active"] is True
    assert api.get("/rebuild").json()["differences"] == []


def test_a_checkpoint_needs_a_key(api: Api, signing: Api) -> None:
    """R-10: without one the problem says how to come by it; with one all heads are signed and checked."""
    lived(api)
    refused = api.get("/checkpoint")
    assert refused.status_code == 422
    assert "--new-key" in refused.json()["errors"][0]["hint"]
    signed = signing.get("/checkpoint").json()
    assert [(head["trigger"], head["revision"]) for head in signed["heads"]] == [(NAME, 2)]
    for asked, pinned in ((api, False), (signing, True)):
        assert asked.post("/verify", signed).json()["checkpoint"] == {
            "created_at": "2026-03-02T08:00:00Z",
            "triggers": 1,
            "public_key": str(KEY.public),
            "pinned": pinned,
        }
    other = str(PrivateKey.fresh().public)
    assert signing.client.post("/api/v1/verify", json=signed, params={"public_key": other}).status_code == 422
    assert api.send("POST", "/verify", b"{", content_type="application/json").status_code == 400
    assert api.post("/verify", {}).status_code == 422


def test_moving(api: Api, signing: Api, database: Database, tmp_path: Path) -> None:
    """R-10: what `export` streams, `import` takes in, however large, into an empty database alone."""
    lived(api)
    api.create(f"{T}-large", input={"text": "x" * 900_000})
    api.create(f"{T}-larger", input={"text": "y" * 900_000})
    exported = signing.get("/export")
    assert exported.headers["Content-Type"] == "application/x-ndjson"
    assert len(exported.content) > 1024 * 1024
    refused = api.send("POST", "/import", exported.content)
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    with Database(f"sqlite:///{tmp_path}/other.db", create=True) as other:
        from revisions.store import schema

        schema.upgrade(other)
        app = create_app(Services.over(other, settings.load()))
        with httpx.Client(transport=Network(app), base_url="http://test") as client:
            taken = Api(client).send("POST", "/import", exported.content)
            assert taken.status_code == 200, taken.text
            assert taken.json()["public_key"] == str(KEY.public)
            assert Api(client).get(T).json() == api.get(T).json()
            assert Api(client).get("/verify").json()["sound"] is True


def test_all_routes_are_described(api: Api) -> None:
    """U-05: the OpenAPI document has the routes and their answers."""
    described: dict[str, Any] = api.client.get("/openapi.json").json()
    for path in ("/verify", "/rebuild", "/checkpoint", "/export", "/import"):
        assert f"/api/v1{path}" in described["paths"]
    assert "guards_missing" in described["components"]["schemas"]["VerificationOut"]["properties"]


def test_uploads_can_be_limited() -> None:
    """R-10: checkpoints are limited, since every viewer may send one and could fill the disk; exports are not."""

    async def receive() -> Any:
        return {"type": "http.request", "body": b"1234", "more_body": False}

    async def taken(largest: int | None) -> list[bytes]:
        return [file.read() async for file in upload(largest)(Request({"type": "http"}, receive))]

    assert asyncio.run(taken(None)) == asyncio.run(taken(4)) == [b"1234"]
    with pytest.raises(TooLarge):
        asyncio.run(taken(3))

"""Histories over HTTP: verify, checkpoint, rebuild, export and import."""

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
def signing_api(database: Database, tmp_path: Path) -> Api:
    """The API of a controller with a key for checkpoints."""
    path = tmp_path / "key"
    path.write_text(KEY.text)
    services = Services.over(database, settings.load(checkpoint_key_file=path))
    return Api(httpx.Client(transport=Network(create_app(services)), base_url="http://test"))


def create_history(api: Api) -> None:
    api.create()
    api.put(T, manifest(description="other"), at(1))


def test_a_sound_and_a_broken_history(api: Api, database: Database) -> None:
    """R-10: the report names trigger, revision and what differs; a broken history is answered 200."""
    create_history(api)
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
    first_break = broken["breaks"][0]
    assert (first_break["trigger"], first_break["revision"], first_break["what"]) == (NAME, 2, "content")
    assert first_break["expected"] != first_break["found"]
    assert api.get("/verify", trigger="acme/production/report/none").status_code == 404
    assert api.get("/verify", trigger="x").status_code == 422


def test_progress_for_clients_that_accept_it(api: Api, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """U-01: as lines of JSON, the last of them the answer or the problem."""
    create_history(api)
    monkeypatch.setattr("controller.api.answers.PROGRESS_SECONDS", 0)
    answer = api.client.get("/api/v1/verify", headers=LINES)
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert lines[0] == {"progress": {"done": 2, "total": 2}}
    assert lines[-1] == {"answer": api.get("/verify").json()}
    tampering.edit(database, 1, reason="x")
    answer = api.client.post("/api/v1/rebuild", headers=LINES)
    assert json.loads(answer.text.splitlines()[-1])["problem"]["code"] == "conflict"
    assert api.post("/rebuild").status_code == 409


def test_a_rebuild(api: Api, database: Database) -> None:
    """R-11: GET shows the differences, POST applies them."""
    create_history(api)
    tampering.execute(database, "UPDATE triggers SET active = NOT active")
    replay = api.get("/rebuild").json()
    assert replay["differences"] == [
        {"table": "triggers", "name": NAME, "field": "active", "expected": True, "found": False}
    ]
    assert api.get(T).json()["active"] is False
    assert api.post("/rebuild").json() == replay | {"applied": True}
    assert api.get(T).json()["active"] is True
    assert api.get("/rebuild").json()["differences"] == []


def test_a_checkpoint_needs_a_key(api: Api, signing_api: Api) -> None:
    """R-10: without one the error says how to make one; with one all heads are signed, and can be verified."""
    create_history(api)
    refused = api.get("/checkpoint")
    assert refused.status_code == 422
    assert "--new-key" in refused.json()["errors"][0]["hint"]
    checkpoint = signing_api.get("/checkpoint").json()
    assert [(head["trigger"], head["revision"]) for head in checkpoint["heads"]] == [(NAME, 2)]
    for client, pinned in ((api, False), (signing_api, True)):
        assert client.post("/verify", checkpoint).json()["checkpoint"] == {
            "created_at": "2026-03-02T08:00:00Z",
            "triggers": 1,
            "public_key": str(KEY.public),
            "pinned": pinned,
        }
    another_key = str(PrivateKey.fresh().public)
    assert (
        signing_api.client.post("/api/v1/verify", json=checkpoint, params={"public_key": another_key}).status_code
        == 422
    )
    assert api.send("POST", "/verify", b"{", content_type="application/json").status_code == 400
    assert api.post("/verify", {}).status_code == 422


def test_an_export_can_be_imported(api: Api, signing_api: Api, database: Database, tmp_path: Path) -> None:
    """R-10: of any size, and only into an empty database."""
    create_history(api)
    api.create(f"{T}-large", input={"text": "x" * 900_000})
    api.create(f"{T}-larger", input={"text": "y" * 900_000})
    exported = signing_api.get("/export")
    assert exported.headers["Content-Type"] == "application/x-ndjson"
    assert len(exported.content) > 1024 * 1024
    refused = api.send("POST", "/import", exported.content)
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    with Database(f"sqlite:///{tmp_path}/other.db", create=True) as other:
        from revisions.store import schema

        schema.upgrade(other)
        app = create_app(Services.over(other, settings.load()))
        with httpx.Client(transport=Network(app), base_url="http://test") as client:
            imported = Api(client).send("POST", "/import", exported.content)
            assert imported.status_code == 200, imported.text
            assert imported.json()["public_key"] == str(KEY.public)
            assert Api(client).get(T).json() == api.get(T).json()
            assert Api(client).get("/verify").json()["sound"] is True


def test_all_routes_are_described(api: Api) -> None:
    """U-05: the OpenAPI document has the routes and their answers."""
    document: dict[str, Any] = api.client.get("/openapi.json").json()
    for path in ("/verify", "/rebuild", "/checkpoint", "/export", "/import"):
        assert f"/api/v1{path}" in document["paths"]
    assert "guards_missing" in document["components"]["schemas"]["VerificationOut"]["properties"]


def test_uploads_can_be_limited() -> None:
    """R-10: checkpoints are limited, because every viewer may send one and could fill the disk; exports are not."""

    async def receive() -> Any:
        return {"type": "http.request", "body": b"1234", "more_body": False}

    async def read_upload(largest: int | None) -> list[bytes]:
        return [file.read() async for file in upload(largest)(Request({"type": "http"}, receive))]

    assert asyncio.run(read_upload(None)) == asyncio.run(read_upload(4)) == [b"1234"]
    with pytest.raises(TooLarge):
        asyncio.run(read_upload(3))

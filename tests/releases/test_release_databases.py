"""Databases of earlier releases, used by this one (R-10, R-11, R-19, L-17)."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from sqlalchemy import make_url

from controller import settings
from controller.app import create_app
from controller.services import Services
from revisions.clock import HandClock
from revisions.store import schema
from revisions.store.database import Database
from tests.controller.asking import Api, at
from tests.controller.conftest import Network
from tests.world import World

HERE = Path(__file__).parent
RELEASES = sorted(folder.name for folder in HERE.iterdir() if (folder / "sqlite.db.gz").exists())
REPORT = "/triggers/acme/production/report"
ALL, WEEKDAY = "acme/production/report/all", "acme/production/report/weekday"


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> Path:
    """Folder of a release."""
    return HERE / str(request.param)


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def made(release: Path, kind: str) -> dict[str, Any]:
    """End time, token and answers that the release recorded."""
    stored: dict[str, Any] = json.loads(gzip.decompress((release / f"{kind}.answers.json.gz").read_bytes()))
    return stored


@pytest.fixture
def database_url(request: pytest.FixtureRequest, release: Path, kind: str, tmp_path: Path) -> Iterator[str]:
    """URL of a restored copy of the release's database."""
    if kind == "sqlite":
        path = tmp_path / "triggerctl.db"
        path.write_bytes(gzip.decompress((release / "sqlite.db.gz").read_bytes()))
        yield f"sqlite:///{path}"
        return
    server, name = request.getfixturevalue("postgresql_url"), f"release_{request.getfixturevalue('worker_id')}"
    url = make_url(server).set(database=name).render_as_string(hide_password=False)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
    try:
        with psycopg.connect(url) as connection:
            connection.execute(gzip.decompress((release / "postgresql.sql.gz").read_bytes()))
        yield url
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
def clock(made: dict[str, Any]) -> HandClock:
    """Clock at the end time that the release recorded."""
    return HandClock(datetime.fromisoformat(made["ended_at"]))


@pytest.fixture
def database(database_url: str, clock: HandClock) -> Iterator[Database]:
    """The release's database, upgraded to the current schema."""
    with Database(database_url) as database:
        schema.upgrade(database)
        database.clock = clock
        yield database


@pytest.fixture
def api(database: Database, made: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Api]:
    """API client with the token that the release created."""
    monkeypatch.delenv("TRIGGERCTL_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    app = create_app(Services.over(database, settings.load()))
    headers = {"Authorization": f"Bearer {made['token']}"}
    with httpx.Client(transport=Network(app), base_url="http://test", headers=headers) as client:
        yield Api(client)


def test_the_command_upgrades_the_database(database_url: str, tmp_path: Path) -> None:
    """R-19, R-10, R-11: after that `verify` reports a sound history, and `rebuild` no difference."""

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "controller.cli.main", "--database-url", database_url, *arguments]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))}
        return subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path, env=environment).stdout

    run("db", "upgrade")
    assert schema.versions()[-1] in run("db", "current")
    assert run("verify").endswith(": sound\n")
    assert run("rebuild") == ""
    shown = json.loads(run("--output", "json", "show", WEEKDAY))
    assert (shown["revision"], shown["spec"]["schedule"]["timezone"]) == (3, "Europe/Berlin")


def test_the_api_gives_the_recorded_answers(api: Api, made: dict[str, Any]) -> None:
    """U-05: to requests for lists, triggers, histories, runs and skips."""
    paths = [path for path in made["answers"] if path != "/checkpoint"]
    assert {path: api.get(path).json() for path in paths} == {path: made["answers"][path] for path in paths}


def test_the_history_matches_the_signed_checkpoint(api: Api, made: dict[str, Any]) -> None:
    """R-10: hash chains are valid, and their heads are those of the checkpoint."""
    signed = made["answers"]["/checkpoint"]
    report = api.post("/verify", signed).json()
    assert (report["sound"], report["breaks"], report["guards_missing"]) == (True, [], [])
    assert report["checkpoint"]["triggers"] == len(signed["heads"])


def test_the_backlog_and_new_occurrences_are_decided_once(api: Api, database: Database, clock: HandClock) -> None:
    """L-01, L-17: the stored backlog is caught up, and later occurrences start as they fall due."""
    before = occurrences(api, ALL)
    assert api.get(f"{REPORT}/all/catchup").json()["remaining"] == 8
    world = World(database, clock)
    world.resync()
    backlog = [f"every/2026-04-0{day}T{hour}:00:00Z" for day, hour in BACKLOG]
    assert occurrences(api, ALL) - before == set(backlog)
    assert api.get(f"{REPORT}/all/catchup").json()["remaining"] == 0
    clock.advance(timedelta(hours=16))
    world.resync()
    due = {f"every/2026-04-{time}:00:00Z" for time in ("05T12", "05T18", "06T00")}
    assert occurrences(api, ALL) - before == {*backlog, *due}
    budget = api.get(f"{REPORT}/budget").json()  # the release paused it until the end of the budget's week
    assert (budget["active"], budget["changed_by"]) == (True, "system")


def test_a_deploy_appends_to_the_stored_history(api: Api, made: dict[str, Any]) -> None:
    """R-02, R-10: the new revision is chained to the stored one, and the checkpoint stays valid."""
    stored = made["answers"][f"{REPORT}/weekday/revisions"]["items"][0]
    changed = {**stored["spec"], "description": "deployed by a later release"}
    answer = api.put(f"{REPORT}/weekday", {"spec": changed}, at(stored["revision"]))
    assert answer.status_code == 200, answer.text
    newest = api.get(f"{REPORT}/weekday/revisions").json()["items"][0]
    assert (newest["revision"], newest["previous_hash"]) == (stored["revision"] + 1, stored["hash"])
    assert api.put(f"{REPORT}/weekday", {"spec": stored["spec"]}, at(newest["revision"])).status_code == 200
    assert api.get(f"{REPORT}/weekday").json()["hash"] != stored["hash"]
    assert api.post("/verify", made["answers"]["/checkpoint"]).json()["sound"]
    assert api.get("/rebuild").json()["differences"] == []


@pytest.mark.parametrize("name", ["weekday", "gap-shifted", "gap-skipped", "anchored", "spread", "none", "undeleted"])
def test_the_audit_of_the_month_finds_no_fault(api: Api, name: str) -> None:
    """U-10: each occurrence became a run or a skip under the revision in force at its instant."""
    audit = api.get(f"{REPORT}/{name}/audit", **{"from": "2026-03-01T00:00:00Z"}).json()
    assert audit["summary"]["clean"], audit


def occurrences(api: Api, trigger: str) -> set[str]:
    """Return the ids of the occurrences that became runs."""
    items = api.get(f"/triggers/{trigger}/occurrences", limit=1000).json()["items"]
    return {item["occurrence_id"] for item in items if item["outcome"] == "started"}


BACKLOG = (("3", "12"), ("3", "18"), ("4", "00"), ("4", "06"), ("4", "12"), ("4", "18"), ("5", "00"), ("5", "06"))

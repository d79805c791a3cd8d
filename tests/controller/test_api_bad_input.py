"""Bad input over HTTP: each is answered with a problem document, and nothing is written."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import select, text

from controller import settings
from controller.api import bodies
from controller.app import create_app
from controller.errors import LONGEST_TEXT
from controller.services import Services
from revisions.errors import MOST_FAULTS
from revisions.store import schema, tables
from revisions.store.database import Database
from tests.controller.asking import IS_NEW, Api, T, at, manifest
from tests.controller.conftest import ON_SQLITE, Network

TABLES = (tables.triggers, tables.trigger_revisions, tables.trigger_status, tables.trigger_changes, tables.tasks)


def contents(database: Database) -> list[Any]:
    """Return all rows that a deploy could have written."""
    with database.read() as connection:
        return [connection.execute(select(table)).all() for table in TABLES]


@pytest.fixture(autouse=True)
def _nothing_half_written(request: pytest.FixtureRequest) -> Iterator[None]:
    if "refused" not in request.fixturenames:
        yield
        return
    database = request.getfixturevalue("database")
    request.getfixturevalue("api").create()
    before = contents(database)
    yield
    assert contents(database) == before


@pytest.fixture
def refused() -> None:
    """Mark a test in which nothing may be written after the first trigger."""


WRONG_MANIFESTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "wrong field": ({"spec": {"task_version": "v1", "schedul": {"every": "1m"}}}, "spec.schedul", "schedule"),
    "wrong field below": (manifest(catchup={"polcy": "all"}), "spec.catchup.polcy", "policy"),
    "wrong zone": (
        manifest(schedule={"cron": "0 8 * * *", "timezone": "Europe/Berln"}),
        "spec.schedule.timezone",
        "Europe/Berlin",
    ),
    "wrong expression": (manifest(schedule={"cron": "0 25 * * *"}), "spec.schedule.cron", ""),
    "never fires": (manifest(schedule={"cron": "0 0 30 2 *"}), "spec.schedule", ""),
    "past instant": (manifest(schedule={"at": "2020-01-01T00:00:00Z"}), "spec.schedule.at", ""),
    "two kinds of schedule": (manifest(schedule={"cron": "0 8 * * *", "every": "1m"}), "spec.schedule", ""),
    "unknown version": (manifest(task_version="v9"), "spec.task_version", "v1"),
    "unquoted version": (manifest(task_version=1.1), "spec.task_version", "quote"),
    "integer too large": (manifest(input={"n": 2**53}), "spec.input.n", "string"),
    "NUL": (manifest(input={"n": "a\0b"}), "spec.input.n", "remove"),
    "half a character": (manifest(input={"n": "\ud800"}), "spec.input.n", "character"),
    "no mapping": ({"spec": []}, "spec", ""),
    "tags that are no texts": (manifest(tags=[1]), "metadata.tags", ""),
}


@pytest.mark.parametrize(("body", "path", "hint"), WRONG_MANIFESTS.values(), ids=WRONG_MANIFESTS)
@pytest.mark.usefixtures("refused")
def test_a_wrong_manifest_is_refused_by_field(api: Api, body: dict[str, Any], path: str, hint: str) -> None:
    """R-14, R-18, S-02: 422 `invalid`, naming the path and the way out."""
    answer = api.put(T, body, at(1))
    assert answer.status_code == 422, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem = answer.json()
    assert (problem["code"], problem["status"]) == ("invalid", 422)
    fault = next((fault for fault in problem["errors"] if fault["path"].startswith(path)), None)
    assert fault is not None, problem
    assert hint in fault["message"] + fault["hint"]


@pytest.mark.parametrize(
    ("path", "where"),
    [("/triggers/Acme/production/report/tick", "project"), ("/triggers/acme/production/report/-tick", "name")],
)
@pytest.mark.usefixtures("refused")
def test_a_wrong_name_is_refused_never_folded(api: Api, path: str, where: str) -> None:
    """R-01: invalid names are refused, in the path too."""
    answer = api.put(path, manifest(), IS_NEW)
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, where)
    assert api.get(path).status_code == 422
    assert api.get("/triggers/acme/production/report/%00").status_code == 422


MALFORMED = {
    "JSON": ("application/json", b'{"spec":\n {"a": }}', "line 2, column 8"),
    "YAML": ("application/yaml", b"spec:\n  a: [1,\n", "line 3, column 1"),
    "a key twice": ("application/json", b'{"spec": {}, "spec": {}}', "'spec' stands twice"),
    "a YAML key twice": ("application/yaml", b"spec: {}\nspec: {}\n", "line 2, column 1"),
    "not UTF-8": ("application/json", b"\xff\xfe", "UTF-8"),
    "nothing": ("application/json", b"", "line 1, column 1"),
    "two documents": ("application/yaml", b"a: 1\n---\nb: 2\n", "more than one document"),
    "a key twice at the end": ("application/json", b'{"a": 1, "b": 2, "b": 2}', "'b' stands twice"),
    "too deep": ("application/json", b"[" * 100_000, "body"),
    "YAML too deep": ("application/yaml", b"[" * 10_000, "line 1, column 101"),
    "too much YAML": ("application/yaml", b"[" + b"1, " * 20_000 + b"]", "write it as JSON"),
}


@ON_SQLITE
@pytest.mark.parametrize(("content_type", "content", "detail"), MALFORMED.values(), ids=MALFORMED)
@pytest.mark.usefixtures("refused")
def test_malformed_bodies_are_refused_with_line_and_column(
    api: Api, content_type: str, content: bytes, detail: str
) -> None:
    """U-01: 400 `malformed` with line and column."""
    answer = api.send("PUT", T, content, content_type=content_type, if_match='"1"')
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")
    assert detail in answer.json()["detail"]


@pytest.mark.usefixtures("refused")
def test_not_a_number_is_refused_with_its_path(api: Api) -> None:
    """R-18: NaN and Infinity, which Python's JSON would take, are refused."""
    body = b'{"spec": {"task_version": "v1", "schedule": {"every": "1m"}, "input": {"n": [1, NaN]}}}'
    answer = api.send("PUT", T, body, content_type="application/json", if_match='"1"')
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "spec.input.n[1]")


@pytest.mark.usefixtures("refused")
def test_too_large_a_body_is_refused(api: Api) -> None:
    """U-01: over 1 MiB answers 413 `too_large`."""
    answer = api.put(T, manifest(input={"n": "x" * 1024 * 1024}), at(1))
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"{T}/activate", {f"name-{number}": 1 for number in range(1_000)}),
        ("/triggers:fire", {"names": ["no name"] * 1_000}),
        ("/triggers:delete", {"names": [{"triger": 1}] * 1_000}),
        (f"{T}/activate", {"a" * 100_000: 1, "reason": "a" * 100_000 + "\0"}),
        (f"/next?{'&'.join(f'name-{number}' for number in range(1_000))}", manifest()),
    ],
    ids=["fields", "names", "blocks", "long", "parameters"],
)
@pytest.mark.usefixtures("refused")
def test_errors_are_limited_in_number_and_length(api: Api, path: str, body: Any) -> None:
    """R-18: however many faults a body has, and however long the quoted texts are."""
    answer = api.post(path, body)
    assert answer.status_code == 422
    problem = answer.json()
    assert len(problem["errors"]) <= MOST_FAULTS
    assert (
        max(len(text) for fault in problem["errors"] for text in (problem["detail"], *fault.values())) <= LONGEST_TEXT
    )


@pytest.mark.usefixtures("refused")
def test_a_field_without_a_name_is_named(api: Api) -> None:
    """R-18: its path is shown as an empty text in quotes."""
    assert api.post(f"{T}/activate", {"": 1}).json()["errors"][0]["path"] == '""'


@pytest.mark.parametrize(
    "headers", [{"If-Match": "*"}, {"If-Match": "abc"}, {"If-None-Match": '"1"'}, at(1) | IS_NEW], ids=str
)
@pytest.mark.usefixtures("refused")
def test_a_precondition_without_a_revision_is_refused(api: Api, headers: dict[str, str]) -> None:
    """R-04: a change must name the revision last read."""
    answer = api.put(T, manifest(description="x"), headers)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")


@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        ("deactivate", {"until": "tomorrow"}, "until"),
        ("deactivate", {"until": "2020-01-01T00:00:00Z"}, "until"),
        ("deactivate", {"resaon": "x"}, "resaon"),
        ("deactivate", {"reason": 7}, "reason"),
        ("activate", [], "body"),
        ("fire", {"input": []}, "input"),
        ("fire", {"overlap": "maybe"}, "overlap"),
    ],
)
@pytest.mark.usefixtures("refused")
def test_a_wrong_field_of_a_request_is_refused(api: Api, path: str, body: Any, where: str) -> None:
    """R-18: bodies of actions are checked as strictly as manifests."""
    answer = api.post(f"{T}/{path}", body, at(1))
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, where)


@pytest.mark.parametrize(
    ("path", "where"),
    [
        ("/triggers?limit=0", "limit"),
        ("/triggers?limit=1001", "limit"),
        ("/triggers?active=perhaps", "active"),
        ("/triggers?project=%00", "project"),
        ("/triggers?cursor=x", "cursor"),
        ("/triggers?cursor=WyJhIl0", "cursor"),
        ("/tasks?cursor=%7B", "cursor"),
        ("/runs?cursor=WyJhIl0", "cursor"),
        ("/runs?status=done", "status"),
        ("/runs?trigger=a/b", "trigger"),
        ("/tokens?cursor=WyJhIl0", "cursor"),
        ("/holds?cursor=WyJhIl0", "cursor"),
        (f"{T}/revisions?cursor=WyJhIl0", "cursor"),
        (f"{T}/occurrences?cursor=WyJhIiwiYiIsImMiXQ", "cursor"),
        (f"{T}/next?n=0", "n"),
        (f"{T}/next?after=now", "after"),
        (f"{T}/revisions/x", "number"),
    ],
)
def test_a_wrong_parameter_is_named(api: Api, path: str, where: str) -> None:
    """U-01: FastAPI's own errors become problem documents, too."""
    api.create()
    answer = api.get(path)
    assert answer.status_code == 422, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert (answer.json()["code"], answer.json()["errors"][0]["path"]) == ("invalid", where)


@pytest.mark.parametrize(
    "path",
    [
        T,
        f"{T}/revisions",
        f"{T}/occurrences",
        f"{T}/next",
        "/tasks/acme/production/report/v9",
        "/runs/01KJ0000000000000000000000",
        "/runs/x",
        "/nothing",
        f"/runs?trigger={T.removeprefix('/triggers/')}",
    ],
)
def test_missing_resources_are_not_found(api: Api, path: str) -> None:
    """U-01: 404 `not_found`, also for an unknown route."""
    answer = api.get(path)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert answer.headers["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("id", ["x", "%00", "A" * 25 + "%00", "%C3%9F" * 26, "01KJ000000000000000000000%0A", "1" * 27])
@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/runs/{}"), ("POST", "/runs/{}/retry"), ("DELETE", "/tokens/{}"), ("DELETE", "/blackouts/{}")],
)
def test_a_malformed_id_is_not_found(api: Api, method: str, path: str, id: str) -> None:
    """U-01: without asking the database."""
    answer = api.client.request(method, "/api/v1" + path.format(id))
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (404, "id")


def test_an_id_is_found_in_small_letters(api: Api) -> None:
    """U-01: ids are case-insensitive."""
    api.create()
    fired = api.post(f"{T}/fire").json()["id"]
    assert api.get(f"/runs/{fired.lower()}").json()["id"] == fired


@pytest.mark.parametrize("number", [0, 2, 2**31, 10**30])
def test_an_unknown_revision_is_not_found(api: Api, number: int) -> None:
    """R-09: however large its number."""
    api.create()
    assert api.get(f"{T}/revisions/{number}").status_code == 404


def test_another_method_is_not_allowed(api: Api) -> None:
    """U-01: 405 with the allowed methods."""
    answer = api.post(T)
    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
    assert "PUT" in answer.headers["Allow"] or "GET" in answer.headers["Allow"]


def send_slowly(app: FastAPI, *parts: Any) -> list[Any]:
    """Send these parts of a body and nothing more, and return what the application answers."""
    unsent, sent = list(parts), list[Any]()
    headers = [(b"host", b"test"), (b"origin", b"http://test"), (b"content-length", b"100")]
    scope = {"type": "http", "method": "POST", "path": f"/api/v1{T}/fire", "query_string": b"", "headers": headers}

    async def receive() -> Any:
        return unsent.pop(0) if unsent else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope | {"scheme": "http", "client": None, "server": None, "root_path": ""}, receive, send))
    return sent


BEGUN = {"type": "http.request", "body": b"{", "more_body": True}


def test_a_body_that_does_not_end_times_out(api: Api, app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    """U-01: an unfinished body must not hold a connection for ever."""
    monkeypatch.setattr(bodies, "PATIENCE_SECONDS", 0)
    begins, body = send_slowly(app, BEGUN)
    assert begins["status"] == 400
    assert b"was not all there after 0 s" in body["body"]


def test_a_client_that_leaves_during_its_body_is_not_logged(
    api: Api, app: FastAPI, caplog: pytest.LogCaptureFixture
) -> None:
    """O-05: there is no answer and no log line: otherwise anybody could fill the log."""
    with caplog.at_level(logging.ERROR):
        assert send_slowly(app, BEGUN, {"type": "http.disconnect"}) == []
    assert caplog.text == ""


def test_an_unexpected_error_reveals_nothing(
    api: Api, services: Services, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """U-01: 500 without details; the traceback is in the log."""

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("secret inside")

    monkeypatch.setattr("controller.api.triggers.deploy_trigger", broken)
    with caplog.at_level(logging.ERROR):
        answer = api.put(T, manifest(), IS_NEW)
    assert (answer.status_code, answer.json()["code"]) == (500, "unexpected")
    assert "secret" not in answer.text
    assert "secret inside" in caplog.text


def probe(url: str) -> tuple[httpx.Response, httpx.Response, httpx.Response]:
    """Return the answers for triggers, readiness and health of an application over a database."""
    with Database(url) as database:
        app: FastAPI = create_app(Services.over(database, settings.load()))
        with httpx.Client(transport=Network(app), base_url="http://test") as client:
            return client.get("/api/v1/triggers"), client.get("/readyz"), client.get("/healthz")


@pytest.mark.parametrize("url", ["sqlite:///nowhere/there.db", "postgresql://nobody@127.0.0.1:1/nothing"])
def test_a_missing_database_is_unavailable(url: str) -> None:
    """O-05: 503; the process is alive but not ready, and no database is created."""
    triggers, ready, alive = probe(url)
    for answer in (triggers, ready):
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert (alive.status_code, alive.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize(
    ("version", "advice"), [("0000", "db upgrade"), ("9999", "use a release"), (None, "db upgrade")]
)
def test_a_database_of_another_schema(database: Database, database_url: str, version: str | None, advice: str) -> None:
    """R-19: a schema that this release does not know gets 503, and the error says what to do."""
    if version is None:
        schema.downgrade(database, "base")
    else:
        with database.write() as connection:
            connection.execute(text(f"UPDATE alembic_version SET version_num = '{version}'"))
            connection.execute(text(f"UPDATE schema_support SET readable_since = '{version}'"))
    triggers, ready, _ = probe(database_url)
    for answer in (triggers, ready):
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        assert advice in answer.json()["detail"]


def test_a_schema_that_changes_while_serving_is_noticed(api: Api, database: Database) -> None:
    """R-19: 503 while a running process finds a downgraded database, until it is upgraded again."""
    api.create()
    schema.downgrade(database, "base")
    assert api.get(T).status_code == 503
    assert api.get(T).status_code == 503
    schema.upgrade(database)
    assert api.get(T).status_code == 404

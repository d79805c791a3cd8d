"""Access control over HTTP: roles, projects, credentials and refusals."""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from sqlalchemy import event, text

from controller import settings
from controller.app import create_app
from controller.auth.guard import OwnPagesOnly
from controller.auth.requirements import Projects, Requirement, RouteTable, require
from controller.errors import KINDS
from controller.services import Services
from controller.settings import Settings
from controller.telemetry.metrics import Metrics
from controller.web import pages
from reconcile.decide.authority import Caller, Grant, Reach, Role
from reconcile.observations.observation import AccessRefused, Observation, Observations, TokenCreated
from reconcile.observations.specs import HoldChanged, TriggerChanged
from reconcile.runs.claim import claim_runs
from reconcile.triggers.credentials import create_token
from revisions.clock import HandClock
from revisions.errors import Unavailable
from revisions.store import runs
from revisions.store.database import Database
from tests.controller.asking import IS_NEW, Api, at, manifest, task_manifest
from tests.controller.conftest import ON_SQLITE, Network
from tests.controller.routes import routes
from tests.observing import only
from tests.world import trigger_document

ACME = Reach(frozenset({"acme"}))
EVERYWHERE = Reach(None)
NAMES = {"project": "acme", "domain": "production", "task": "report", "name": "tick", "version": "v1", "number": "1"}


@pytest.fixture
def app(services: Services) -> FastAPI:
    """The application with the web page and the metrics."""
    app = create_app(services)
    pages.install(app)
    metrics = [require(Role.VIEWER, Projects.ALL, diagnosis=True)]
    app.add_api_route("/metrics", lambda: "", include_in_schema=False, dependencies=metrics)
    return app


@pytest.fixture
def as_role(services: Services, app: FastAPI) -> Iterator[Callable[..., Api]]:
    """Return a function that makes the API for a caller with a token of a role, by default only in `acme`.

    For the role None the caller has no token.
    """
    clients: list[httpx.Client] = []

    def client_for(role: Role | None, reach: Reach = ACME, name: str | None = None) -> Api:
        headers = {}
        if role is not None:
            who = name or f"{role}-{'some' if reach.projects else 'all'}"
            created = create_token(
                services.database, services.observations, who, Grant(role, reach), None, EVERYWHERE, Caller("root")
            )
            headers["Authorization"] = f"Bearer {created.secret}"
        clients.append(httpx.Client(transport=Network(app), base_url="http://test", headers=headers))
        return Api(clients[-1])

    yield client_for
    for client in clients:
        client.close()


@pytest.fixture
def admin(as_role: Callable[..., Api]) -> Api:
    """The API for an admin of everything; a task and a trigger exist in `acme` and in `other`."""
    admin = as_role(Role.ADMIN, EVERYWHERE)
    for project in ("acme", "other"):
        assert admin.put(f"/tasks/{project}/production/report/v1", task_manifest()).status_code == 201
        admin.create(f"/triggers/{project}/production/report/tick", tags=["x"])
    return admin


def requirements(app: FastAPI) -> dict[tuple[str, str], Requirement]:
    """Return the requirement of each route by method and path."""
    table = RouteTable(app).requirements
    return {(method, path): needed for path, methods in table.items() for method, needed in methods.items()}


def tokens_of_claimed(database: Database, number: int) -> Mapping[str, str]:
    """Claim a number of runs, and return their tokens by run id."""
    lease = timedelta(0)
    claimed = claim_runs(
        database, Observations(), claimed_by="w", lease=lease, limit=number, max_running=number, guarded=True
    )
    return claimed.tokens


def test_every_route_declares_its_requirement(app: FastAPI) -> None:
    """O-06: deny by default; a new route without a declaration fails here, and cannot be reached."""
    assert sorted(routes(app)) == sorted(requirements(app))


def test_a_route_without_a_requirement_cannot_be_reached(app: FastAPI, as_role: Callable[..., Api]) -> None:
    """O-06: not by an admin either, nor as an undeclared method of a declared path."""
    app.add_api_route("/api/v1/new", lambda: "secret")
    app.add_api_route("/api/v1/triggers", lambda: "secret", methods=["PATCH"])
    for role in (None, Role.ADMIN):
        api = as_role(role, EVERYWHERE)
        assert "secret" not in api.get("/new").text
        refused = api.client.request("PATCH", "/api/v1/triggers")
        assert "secret" not in refused.text
    assert api.get("/new").status_code == 404
    assert (refused.status_code, refused.headers["Allow"]) == (405, "GET")


def test_a_route_does_not_run_without_the_guard() -> None:
    """O-06: a second line of defence, should a request ever get past the guard."""
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "server": ("test", 80), "query_string": b""}
    with pytest.raises(RuntimeError, match="without passing the guard"):
        asyncio.run(Requirement(Role.VIEWER)(Request(scope)))


@ON_SQLITE
def test_each_route_against_each_role(app: FastAPI, as_role: Callable[..., Api], admin: Api) -> None:
    """O-06: without a credential 401; below the role 403; otherwise the route answers."""
    fired = admin.post("/triggers/acme/production/report/tick/fire").json()["id"]
    callers = {role: as_role(role, EVERYWHERE, f"{role}-of-all") for role in (*reversed(Role), None)}
    declared = requirements(app)
    for method, path in sorted(declared):
        requirement = declared[method, path]
        target = re.sub(r"\{(\w+)(:path)?\}", lambda m: NAMES.get(m[1], fired if m[1] == "id" else "page.css"), path)
        for role, api in callers.items():
            answer = api.client.request(method, target, headers={"Origin": "http://test"})
            context = f"{role or 'nobody'}: {method} {path}: {answer.status_code} {answer.text[:200]}"
            if requirement.role is None:
                assert answer.status_code not in (403, 405), context
            elif role is None:
                assert answer.status_code == 401, context
                assert answer.headers["WWW-Authenticate"].startswith("Bearer"), context
            elif role.rank < requirement.role.rank:
                assert answer.status_code == 403, context
            else:
                assert answer.status_code not in (401, 403, 405), context


def test_routes_over_all_projects_refuse_an_admin_of_one(app: FastAPI, as_role: Callable[..., Api], admin: Api) -> None:
    """O-06: an admin of one project cannot export, verify or diagnose the others."""
    api = as_role(Role.ADMIN)
    for (method, path), requirement in requirements(app).items():
        if requirement.projects is Projects.ALL:
            assert api.client.request(method, path).status_code == 403, path


def test_a_token_of_one_project_reads_only_that_project(as_role: Callable[..., Api], admin: Api) -> None:
    """O-06: lists leave others out; names of others are forbidden, existing or not; ids are not found."""
    runs = {p: admin.post(f"/triggers/{p}/production/report/tick/fire").json()["id"] for p in ("acme", "other")}
    assert admin.post("/blackouts", {"project": "other", "until": "2027-01-01T00:00:00Z", "reason": "r"}).is_success
    viewer = as_role(Role.VIEWER)
    for path in ("/triggers", "/tasks", "/runs"):
        items = viewer.get(path).json()["items"]
        assert [item["project"] for item in items] == ["acme"], path
        assert viewer.get(path, project="other").status_code == 403, path
    assert [item["trigger"] for item in viewer.get("/changes").json()["items"]] == ["acme/production/report/tick"]
    assert viewer.get("/holds").json()["items"] == []
    assert viewer.get("/calendars").json()["items"] == []
    assert viewer.get("/runs", trigger="other/production/report/tick").status_code == 403
    for name in ("tick", "never-was"):
        refused = viewer.get(f"/triggers/other/production/report/{name}")
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert viewer.get(f"/runs/{runs['acme']}").status_code == 200
    for part in ("", "/logs"):
        assert viewer.get(f"/runs/{runs['other']}{part}").status_code == 404, part
    assert viewer.client.get("/metrics").status_code == 403  # they name projects
    page = viewer.client.get("/", headers={"Accept": "text/html"}).text
    assert "acme/" in page
    assert "other/" not in page


def test_a_token_of_one_project_changes_only_that_project(as_role: Callable[..., Api], admin: Api) -> None:
    """O-06: by name, by tag, in bulk, by id, and with the project in the body."""
    other = "/triggers/other/production/report/tick"
    run = admin.post(f"{other}/fire").json()["id"]
    until = "2027-01-01T00:00:00Z"
    hold = admin.post("/blackouts", {"project": "other", "until": until, "reason": "r"}).json()["id"]
    api = as_role(Role.DEPLOYER)
    selection = {"names": [{"trigger": "other/production/report/tick", "revision": 1}]}
    refused = [
        api.put(other, manifest(description="mine"), at(1)),
        api.post(f"{other}/fire"),
        api.post("/triggers:deactivate", selection),
        api.post("/triggers:fire", {"names": ["other/production/report/tick"]}),
        api.put("/tasks/other/production/report/v2", task_manifest()),
        api.post("/freeze", {"reason": "all"}),
        api.post("/freeze", {"project": "other", "reason": "r"}),
        api.post("/unfreeze", {"project": "other"}),
        api.post("/blackouts", {"tag": "x", "until": until, "reason": "r"}),
        api.post("/blackouts", {"trigger": "other/production/report/tick", "until": until, "reason": "r"}),
        api.post("/next", trigger_of("other")),
        api.post("/warnings", trigger_of("other")),
    ]
    assert [(answer.status_code, answer.json()["code"]) for answer in refused] == [(403, "forbidden")] * len(refused)
    for path in (f"/runs/{run}/cancel", f"/runs/{run}/retry"):
        assert api.post(path).status_code == 404
    assert api.post(f"/runs/{run}/complete", {"attempt": 1, "outcome": "succeeded"}).status_code == 404
    assert api.delete(f"/blackouts/{hold}").status_code == 404
    changed = api.post("/triggers:deactivate", {"tag": "x"}).json()["items"]
    assert [item["trigger"] for item in changed] == ["acme/production/report/tick"]
    fired = api.post("/triggers:fire", {"tag": "x"}).json()["items"]
    assert [item["trigger"] for item in fired] == ["acme/production/report/tick"]
    assert admin.get(other).json()["active"] is True


def trigger_of(project: str) -> dict[str, Any]:
    document = trigger_document()
    return document | {"metadata": document["metadata"] | {"project": project}}


def test_the_actor_is_named_by_the_credential(as_role: Callable[..., Api], admin: Api) -> None:
    """O-06: other headers are ignored."""
    api = as_role(Role.DEPLOYER, name="ci")
    path = "/triggers/acme/production/report/other"
    headers = {"X-Actor": "root", "X-Forwarded-User": "root", "Remote-User": "root"} | IS_NEW
    assert api.put(path, manifest(), headers).json()["changed_by"] == "ci"
    assert [item["actor"] for item in admin.get(f"{path}/revisions").json()["items"]] == ["ci"]


def test_diagnosis_answers_without_the_database(
    as_role: Callable[..., Api], admin: Api, services: Services, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O-05, O-06: only to callers admitted within the last hour, so that scrapes go on during an outage."""

    def raise_unavailable(self: Database) -> Any:
        raise Unavailable("the database is away")

    never_admitted, some = as_role(Role.VIEWER, EVERYWHERE, "never-came"), as_role(Role.VIEWER)
    some.get("/triggers")
    clock.advance(timedelta(hours=1))
    revoked = as_role(Role.VIEWER, EVERYWHERE, "revoked")
    revoked.get("/triggers")
    [token] = [token["id"] for token in admin.get("/tokens").json()["items"] if token["name"] == "revoked"]
    admin.delete(f"/tokens/{token}")
    revoked.get("/triggers")
    monkeypatch.setattr(Database, "read", raise_unavailable)
    callers = {"admin": admin, "stranger": never_admitted, "revoked": revoked, "some": some}
    paths = ("/metrics", "/api/v1/doctor", "/api/v1/triggers")
    answers = {who: [api.client.get(path).status_code for path in paths] for who, api in callers.items()}
    nobody = [503] * 3
    assert answers == {"admin": [200, 200, 503], "stranger": nobody, "revoked": nobody, "some": [403, 403, 503]}
    clock.advance(timedelta(seconds=1))
    assert some.client.get("/metrics").status_code == 503
    clock.advance(timedelta(hours=1))
    assert admin.client.get("/metrics").status_code == 503


def test_a_read_only_database_can_be_read(as_role: Callable[..., Api], admin: Api, database: Database) -> None:
    """O-05, O-06: a standby, or a full disk. The last use of a token is not recorded then; changes get 503."""
    never_admitted = as_role(Role.ADMIN, EVERYWHERE, "never-came")
    set_read_only = "PRAGMA query_only=ON" if database.is_sqlite else "SET TRANSACTION READ ONLY"
    event.listen(database.engine, "begin", lambda connection: connection.exec_driver_sql(set_read_only))
    path = "/triggers/acme/production/report/tick"
    assert [never_admitted.get(read_path).status_code for read_path in (path, "/runs", "/doctor")] == [200] * 3
    changes = (
        never_admitted.post(f"{path}/fire"),
        never_admitted.delete(path, at(1)),
        never_admitted.post("/freeze", {"reason": "r"}),
    )
    for refused in changes:
        assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
        assert "takes writes" in refused.json()["errors"][0]["hint"]


def test_without_access_control_the_actor_is_local(api: Api) -> None:
    """O-06: until there is a token or an issuer."""
    assert api.create()["changed_by"] == "local"
    assert api.client.get("/metrics").status_code == 200


def test_the_first_token_turns_access_control_on_for_good(
    api: Api, services: Services, database: Database, app: FastAPI
) -> None:
    """O-06: revoking the token does not turn it off, neither in this process nor in one that starts later."""
    assert api.get("/triggers").status_code == 200
    created = api.post("/tokens", {"name": "ann", "role": "admin"})
    assert created.status_code == 201
    assert api.get("/triggers").status_code == 401
    headers = {"Authorization": f"Bearer {created.json()['token']}"}
    revoked = api.client.delete(f"/api/v1/tokens/{created.json()['id']}", headers=headers)
    assert (revoked.status_code, revoked.json()["live"]) == (200, False)
    assert api.client.get("/api/v1/triggers", headers=headers).status_code == 401
    later_app = create_app(Services.over(database, settings.load(), Observations()))
    with httpx.Client(transport=Network(later_app), base_url="http://test") as client:
        assert client.get("/api/v1/triggers").status_code == 401


def test_access_can_be_required_before_there_is_a_token(database: Database) -> None:
    """O-06: with `access: required` only tokens made on the database are accepted."""
    app = create_app(Services.over(database, settings.load(access="required"), Observations()))
    with httpx.Client(transport=Network(app), base_url="http://test") as client:
        refused = client.get("/api/v1/triggers")
        assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
        assert "token create" in refused.json()["errors"][0]["hint"]
        assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    "header", ["Bearer", "Bearer ", "Basic YTpi", "Bearer tct_wrong", "Bearer tcr_wrong", "Bearer a.b.c", "x"]
)
def test_a_wrong_credential_is_refused(header: str, as_role: Callable[..., Api], admin: Api) -> None:
    """O-06: 401 for each kind of wrong credential."""
    nobody = as_role(None)
    refused = nobody.client.get("/api/v1/triggers", headers={"Authorization": header})
    assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")


def test_wrong_credentials_are_limited_per_address(as_role: Callable[..., Api], admin: Api, clock: HandClock) -> None:
    """O-06: after ten from one address every request gets 429, until `Retry-After` has passed."""
    nobody = as_role(None)
    wrong = {"Authorization": "Bearer tct_wrong"}
    answers = [nobody.client.get("/api/v1/triggers", headers=wrong) for _ in range(11)]
    assert [answer.status_code for answer in answers] == [401] * 10 + [429]
    assert answers[-1].json()["code"] == "too_many_failures"
    assert admin.get("/triggers").status_code == 429
    clock.advance(timedelta(seconds=int(answers[-1].headers["Retry-After"])))
    assert admin.get("/triggers").status_code == 200
    assert KINDS["too_many_failures"].exit.value == 6


def test_refusals_are_logged_and_counted(
    as_role: Callable[..., Api], admin: Api, observations: Observations, database: Database
) -> None:
    """O-06: with address, actor, route, resource and reason, never with the credential."""
    observed: list[Observation] = []
    observations.subscribe(observed.append)
    metrics = Metrics(database, lambda: False, Settings())
    observations.subscribe(metrics.count)
    as_role(Role.VIEWER).post("/triggers/acme/production/report/tick/fire")
    as_role(None).client.get("/api/v1/runs", headers={"Authorization": "Bearer tct_guess"})
    as_role(None).client.post("/hooks/tct_guess%0aline")
    refused = only(AccessRefused, observed)
    logged = [(refusal.actor, refusal.address, refusal.method, refusal.path, refusal.of) for refusal in refused]
    route = "/api/v1/triggers/{project}/{domain}/{task}/{name}/fire"
    assert logged == [
        ("viewer-some", "127.0.0.1", "POST", route, "acme/production/report/tick"),
        (None, "127.0.0.1", "GET", "/api/v1/runs", None),
        (None, "127.0.0.1", "POST", None, None),
    ]
    assert all(refusal.why for refusal in refused)
    assert "guess" not in str(observed)
    counted = [
        metrics.registry.get_sample_value("triggerctl_access_refused_total", {"reason": reason})
        for reason in ("forbidden", "unauthenticated")
    ]
    assert counted == [1, 2]


def test_refusals_by_routes_and_of_foreign_pages_are_logged(
    as_role: Callable[..., Api], admin: Api, services: Services, observations: Observations
) -> None:
    """O-06: a project in a query or body, a token beyond the caller's own role, a foreign page; once each."""
    observed: list[Observation] = []
    observations.subscribe(observed.append)
    admin_of_acme = as_role(Role.ADMIN)
    admin_of_acme.get("/triggers", project="other")
    admin_of_acme.post("/freeze", {"project": "other", "reason": "r"})
    admin_of_acme.post("/tokens", {"name": "eve", "role": "admin"})
    served_app = create_app(services)
    pages.install(served_app)
    served_app.add_middleware(OwnPagesOnly, settings=services.settings, access=services.access)
    with httpx.Client(transport=Network(served_app), headers={"Origin": "https://evil.example"}) as page:
        page.post("http://test/sign-out")
        page.get("http://test/tct_0123456789")
    logged = [
        (refusal.reason, refusal.actor, refusal.method, refusal.path) for refusal in only(AccessRefused, observed)
    ]
    assert logged == [
        ("forbidden", "admin-some", "GET", "/api/v1/triggers"),
        ("forbidden", "admin-some", "POST", "/api/v1/freeze"),
        ("forbidden", "admin-some", "POST", "/api/v1/tokens"),
        ("forbidden", None, "POST", "/sign-out"),
        ("forbidden", None, "GET", None),
    ]
    assert "tct_" not in str(observed)


@pytest.mark.parametrize(
    ("path", "of"),
    [
        ("/api/v1/tasks/acme/production/Report/v1.2", "acme/production/Report/v1.2"),
        ("/api/v1/calendars/acme/days-off", "acme/days-off"),
        ("/api/v1/runs/01m8m6btan8hxd64ds3x5deczd", "01m8m6btan8hxd64ds3x5deczd"),
        ("/triggers/acme/production/report/tick", "acme/production/report/tick"),
        ("/api/v1/tokens/tct_0123456789012345678901234567890123456789012", None),
        ("/api/v1/triggers/acme/production/report/tct_Secret", None),
        ("/api/v1/tasks/acme/production/report/tct_Secret", None),
        ("/api/v1/triggers/acme/production/report/a\nb", None),
        ("/api/v1/runs", None),
    ],
)
def test_only_valid_names_of_a_path_are_logged(app: FastAPI, path: str, of: str | None) -> None:
    """O-06: other texts are left out: they may be a misplaced token, or hold line breaks."""
    route = RouteTable(app).match(path)
    assert route is not None
    assert route.resource() == of


def test_changes_are_logged_with_their_actor(as_role: Callable[..., Api], observations: Observations) -> None:
    """O-05, O-06: changes of triggers, freezes and tokens."""
    observed: list[Observation] = []
    admin = as_role(Role.ADMIN, name="root-2")
    observations.subscribe(observed.append)
    assert admin.put("/tasks/acme/production/report/v1", task_manifest()).status_code == 201
    admin.create("/triggers/acme/production/report/mine")
    assert admin.post("/freeze", {"project": "acme", "reason": "busy"}).status_code in (200, 201)
    assert admin.post("/tokens", {"name": "eve", "role": "viewer", "projects": ["acme"]}).status_code == 201
    assert [
        observation.facts()["actor"]
        for observation in observed
        if isinstance(observation, TriggerChanged | HoldChanged)
    ] == ["root-2"] * 2
    created = only(TokenCreated, observed)[-1]
    assert (created.bearer, created.role, created.projects, created.actor) == ("eve", "viewer", ["acme"], "root-2")


def test_a_run_that_fires_a_trigger_is_its_cause(as_role: Callable[..., Api], admin: Api, database: Database) -> None:
    """X-02: for fires and backfills; runs started by a person have no cause."""
    deployer, path = as_role(Role.DEPLOYER, name="ci"), "/triggers/acme/production/report/mine"
    deployer.create(path, overlap="allow")
    first = deployer.post(f"{path}/fire").json()
    assert first["caused_by_run_id"] is None
    token = tokens_of_claimed(database, 1)[first["id"]]
    run_headers = {"Authorization": f"Bearer {token}"}
    past = {"from": "2026-03-02T07:58:00Z", "to": "2026-03-02T07:59:00Z"}
    fired = admin.client.post(f"/api/v1{path}/fire", json={"overlap": "allow"}, headers=run_headers).json()
    [backfilled] = admin.client.post(f"/api/v1{path}/backfill", json=past, headers=run_headers).json()["items"]
    for run_id in (fired["id"], backfilled["run_id"]):
        assert admin.get(f"/runs/{run_id}").json()["caused_by_run_id"] == first["id"]
        with database.read() as connection:
            caused_run, causing_run = runs.get(connection, run_id), runs.get(connection, first["id"])
        assert caused_run
        assert causing_run
        assert caused_run.caused_by_trigger_id == causing_run.trigger_id


def test_a_run_reports_on_itself_only(
    as_role: Callable[..., Api], admin: Api, database: Database, app: FastAPI, services: Services
) -> None:
    """X-13, X-10, X-14: its token reports on no other run and approves nothing; its author's rights do not matter."""
    deployer = as_role(Role.DEPLOYER, name="ci")
    deployer.create("/triggers/acme/production/report/mine", overlap="allow")
    ids = [deployer.post(f"/triggers/acme/production/report/{name}/fire").json()["id"] for name in ("mine", "tick")]
    token = tokens_of_claimed(database, 2)[ids[0]]
    run_headers = {"Authorization": f"Bearer {token}"}
    for id in ids:
        refused = admin.client.post(f"/api/v1/runs/{id}/approve", headers=run_headers)
        assert refused.status_code == 403
        assert "only a person may" in refused.json()["detail"]
    [ci] = [item for item in admin.get("/tokens").json()["items"] if item["name"] == "ci"]
    admin.delete(f"/tokens/{ci['id']}")
    other, mine = (
        admin.client.post(
            f"/api/v1/runs/{id}/complete", json={"attempt": 1, "outcome": "succeeded"}, headers=run_headers
        )
        for id in reversed(ids)
    )
    assert (other.status_code, other.json()["code"]) == (403, "forbidden")
    assert (mine.status_code, mine.json()["status"]) == (200, "succeeded")
    again = admin.client.post(f"/api/v1/runs/{ids[0]}/heartbeat", json={"attempt": 1}, headers=run_headers)
    assert again.status_code == 401


def test_every_answer_has_security_headers(as_role: Callable[..., Api], admin: Api) -> None:
    """O-06: also errors and public answers; HSTS only over TLS."""
    nobody = as_role(None)
    for path in ("/api/v1/triggers", "/healthz", "/static/page.css", "/sign-in", "/nowhere", "/metrics"):
        answer = nobody.client.get(path)
        headers = answer.headers
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"], path
        assert headers["X-Content-Type-Options"] == "nosniff", path
        assert headers["Referrer-Policy"] == "same-origin", path
        assert "Strict-Transport-Security" not in headers, path
    secure = nobody.client.get("https://test/healthz")
    assert secure.headers["Strict-Transport-Security"].startswith("max-age=")


def test_an_admin_of_one_project_manages_only_its_tokens(as_role: Callable[..., Api], admin: Api) -> None:
    """O-06: creates, lists and revokes."""
    acme_admin = as_role(Role.ADMIN)
    assert acme_admin.post("/tokens", {"name": "ci", "role": "admin"}).status_code == 403
    assert (
        acme_admin.post("/tokens", {"name": "ci", "role": "viewer", "projects": ["acme", "other"]}).status_code == 403
    )
    created = acme_admin.post("/tokens", {"name": "ci", "role": "admin", "projects": ["acme"]})
    assert created.status_code == 201
    assert [item["name"] for item in acme_admin.get("/tokens").json()["items"]] == ["ci", "admin-some"]
    [root] = [item for item in admin.get("/tokens").json()["items"] if item["name"] == "admin-all"]
    assert acme_admin.delete(f"/tokens/{root['id']}").status_code == 404
    assert admin.delete(f"/tokens/{created.json()['id']}").json()["revoked_by"] == "admin-all"


def test_tokens_of_other_projects_are_not_revealed(as_role: Callable[..., Api], admin: Api) -> None:
    """O-06: not by a cursor, the length of a page, or a conflict of names."""
    acme_admin = as_role(Role.ADMIN)
    others = [
        admin.post("/tokens", {"name": f"of-{n}", "role": "viewer", "projects": ["other"]}).json() for n in range(3)
    ]
    mine = [
        acme_admin.post("/tokens", {"name": f"my-{n}", "role": "viewer", "projects": ["acme"]}).json() for n in range(2)
    ]
    page = acme_admin.get("/tokens", limit=2).json()
    assert [item["id"] for item in page["items"]] == [token["id"] for token in reversed(mine)]
    rest = acme_admin.get("/tokens", limit=2, cursor=page["next_cursor"]).json()
    assert ([item["name"] for item in rest["items"]], rest["next_cursor"]) == (["admin-some"], None)
    refused = acme_admin.post("/tokens", {"name": "of-1", "role": "viewer", "projects": ["acme"]})
    assert refused.status_code == 409
    assert others[1]["id"] not in refused.text


def test_a_secret_is_shown_once_and_stored_as_a_hash(admin: Api, database: Database) -> None:
    """O-06: neither lists nor the database hold the secret."""
    secret = admin.post("/tokens", {"name": "ci", "role": "viewer"}).json()["token"]
    assert secret not in admin.get("/tokens").text
    with database.read() as connection:
        stored = str(list(connection.execute(text("SELECT * FROM tokens"))))
    assert secret not in stored
    assert secret.removeprefix("tct_") not in stored


def test_a_token_shows_its_creator_and_last_use(as_role: Callable[..., Api], admin: Api, clock: HandClock) -> None:
    """O-06: and it expires."""
    request = {"name": "ci", "role": "viewer", "projects": ["acme"], "expires_at": "2026-03-02T09:00:00Z"}
    created = admin.post("/tokens", request).json()
    assert (created["created_by"], created["role"], created["projects"], created["last_used_at"]) == (
        "admin-all",
        "viewer",
        ["acme"],
        None,
    )
    headers = {"Authorization": f"Bearer {created['token']}"}
    assert admin.client.get("/api/v1/triggers", headers=headers).status_code == 200
    [listed] = [item for item in admin.get("/tokens").json()["items"] if item["id"] == created["id"]]
    assert (listed["last_used_at"], listed["live"]) == ("2026-03-02T08:00:00Z", True)
    clock.advance(timedelta(hours=1))
    assert admin.client.get("/api/v1/triggers", headers=headers).status_code == 401


def test_tokens_of_one_name_have_the_same_rights(admin: Api) -> None:
    """O-06, X-15: two tokens may have one name while one replaces the other."""
    ci = {"name": "ci", "role": "deployer", "projects": ["acme"]}
    assert [admin.post("/tokens", ci).status_code for _ in range(2)] == [201, 201]
    refused = admin.post("/tokens", ci | {"role": "admin"})
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (409, "name")


@pytest.mark.parametrize(
    ("request_body", "path"),
    [
        ({"name": "Ann", "role": "viewer"}, "name"),
        ({"name": "system", "role": "viewer"}, "name"),
        ({"name": "local", "role": "viewer"}, "name"),
        ({"name": "ann", "role": "owner"}, "role"),
        ({"name": "ann", "role": "viewer", "projects": []}, "projects"),
        ({"name": "ann", "role": "viewer", "projects": ["A"]}, "projects[0]"),
        ({"name": "ann", "role": "viewer", "expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
        ({"role": "viewer"}, "name"),
    ],
)
def test_a_wrong_request_for_a_token_is_refused_by_field(api: Api, request_body: dict[str, Any], path: str) -> None:
    """O-06, U-01: and no token is made, so that a mistake locks nobody out."""
    refused = api.post("/tokens", request_body)
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, path)
    assert api.get("/triggers").status_code == 200

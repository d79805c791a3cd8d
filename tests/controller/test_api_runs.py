"""Runs over HTTP: firing, listing, cancelling, logs."""

from controller.services import Services
from reconcile.observations.observation import Observation
from reconcile.observations.runs import RunCancelRequested
from revisions.clock import HandClock
from revisions.ids import TriggerKey
from revisions.store import logs
from revisions.store.database import Database
from tests.controller.asking import NAME, Api, T
from tests.observing import only


def test_a_run_fired_by_hand(api: Api) -> None:
    """X-02, X-11: the answer is the whole run; its input overrides the trigger's, name by name."""
    api.create(input={"region": "emea", "size": 1})
    answer = api.post(f"{T}/fire", {"input": {"size": 2}})
    assert answer.status_code == 201
    run = answer.json()
    assert run.pop("id")
    assert run.pop("occurrence_id").startswith("manual/")
    assert run == {
        "project": "acme",
        "domain": "production",
        "task": "report",
        "task_version": "v1",
        "trigger": NAME,
        "revision": 1,
        "source": "manual",
        "scheduled_at": "2026-03-02T08:00:00Z",
        "created_at": "2026-03-02T08:00:00Z",
        "started_at": None,
        "finished_at": None,
        "status": "pending",
        "attempt": 0,
        "input": {"region": "emea", "size": 2},
        "output": None,
        "error": None,
        "cost": None,
        "caused_by_run_id": None,
        "approved_at": None,
        "approved_by": None,
        "cancel_requested_at": None,
        "cancel_requested_by": None,
        "warnings": [],
    }
    stored = api.get(f"/runs/{answer.json()['id']}").json()
    assert stored | {"warnings": []} == answer.json() | {"waits_for": None}


def test_firing_beside_a_live_run_is_refused(api: Api) -> None:
    """X-09, X-11: the error names the live run. `overlap` allows it, and a repeated request gets the first run."""
    api.create()
    key = {"Idempotency-Key": "k"}
    first = api.post(f"{T}/fire", None, key).json()
    assert api.post(f"{T}/fire", None, key).json() == first
    assert api.post(f"{T}/fire", {"input": {"x": 1}}, key).status_code == 409
    refused = api.post(f"{T}/fire")
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert first["id"] in refused.json()["detail"]
    assert api.post(f"{T}/fire", {"overlap": "allow"}).status_code == 201


def test_runs_are_listed_newest_first_in_pages(api: Api, clock: HandClock) -> None:
    """U-01: filtered by project, trigger or status."""
    api.create()
    run_ids = [api.post(f"{T}/fire", {"overlap": "allow"}).json()["id"] for _ in range(3)]
    first = api.get("/runs", limit=2).json()
    rest = api.get("/runs", limit=2, cursor=first["next_cursor"]).json()
    assert [run["id"] for run in first["items"] + rest["items"]] == sorted(run_ids, reverse=True)
    assert len(api.get("/runs", trigger=NAME).json()["items"]) == 3
    assert len(api.get("/runs", project="acme", task="report").json()["items"]) == 3
    assert api.get("/runs", status="failed").json()["items"] == []


def test_cancelling_a_pending_run(api: Api) -> None:
    """X-11: it is cancelled at once; an ended run stays as it is."""
    api.create()
    run = api.post(f"{T}/fire").json()["id"]
    assert api.post(f"/runs/{run}/cancel").json()["status"] == "cancelled"
    assert api.post(f"/runs/{run}/cancel").json()["status"] == "cancelled"
    assert api.post("/runs/01KJ0000000000000000000000/cancel").status_code == 404


def test_a_cancellation_is_observed_once_with_its_actor(api: Api, services: Services) -> None:
    """X-11, O-05: the run records the actor too; a cancellation of an ended run does nothing."""
    observed: list[Observation] = []
    services.observations.subscribe(observed.append)
    api.create()
    run = api.post(f"{T}/fire").json()["id"]
    for _ in range(2):
        api.post(f"/runs/{run}/cancel")
    [requested] = only(RunCancelRequested, observed)
    assert requested.facts() == {
        "trigger": TriggerKey.parse(NAME),
        "run_id": run,
        "status": "cancelled",
        "actor": "local",
    }
    assert api.get(f"/runs/{run}").json()["cancel_requested_by"] == "local"


def test_a_log_is_returned_byte_for_byte(api: Api, database: Database) -> None:
    """X-17: an attempt without a log is not found."""
    api.create()
    run = api.post(f"{T}/fire").json()["id"]
    assert api.get(f"/runs/{run}/logs").content == b""
    assert api.get(f"/runs/{run}/logs", attempt=1).status_code == 404
    with database.write() as connection:
        logs.append(connection, {(run, 0): [logs.LogPiece(0, b"\xff\x00 as is\r\n")]})
    assert api.get(f"/runs/{run}/logs").content == b"\xff\x00 as is\r\n"


def test_a_log_can_be_followed_by_position(api: Api, database: Database) -> None:
    """X-17: headers have the stored position, the attempt and the status; a gap in the log is marked."""
    api.create()
    run = api.post(f"{T}/fire").json()["id"]
    with database.write() as connection:
        logs.append(connection, {(run, 0): [logs.LogPiece(0, b"one\n"), logs.LogPiece(10, b"two\n")]})
    answer = api.get(f"/runs/{run}/logs", position=2)
    assert answer.content == b"e\n\n[6 bytes were not kept]\ntwo\n"
    headers = {
        name: answer.headers[f"Triggerctl-{name}"] for name in ("Position", "Attempt", "Newest-Attempt", "Status")
    }
    assert headers == {"Position": "14", "Attempt": "0", "Newest-Attempt": "0", "Status": "pending"}
    assert api.get(f"/runs/{run}/logs", position=14).content == b""
    assert api.get(f"/runs/{run}/logs", position=-1).status_code == 422


def test_a_log_of_many_gigabytes_can_be_followed(api: Api, database: Database) -> None:
    """X-17: positions count everything printed, although only head and tail are kept."""
    api.create()
    run, position = api.post(f"{T}/fire").json()["id"], 5 * 2**30
    with database.write() as connection:
        logs.append(connection, {(run, 0): [logs.LogPiece(position, b"end\n")]})
    answer = api.get(f"/runs/{run}/logs", position=position)
    assert (answer.content, answer.headers["Triggerctl-Position"]) == (b"end\n", str(position + 4))
    assert api.get(f"/runs/{run}/logs", position=position + 4).content == b""


def test_fires_and_cancellations_are_observed(api: Api, services: Services) -> None:
    """X-11: so that the runner of this process need not poll for them."""
    observed: list[Observation] = []
    services.observations.subscribe(observed.append)
    api.create()
    run = api.post(f"{T}/fire").json()["id"]
    api.post(f"/runs/{run}/cancel")
    assert [observation.name for observation in observed if observation.name.startswith("run.")] == [
        "run.fired",
        "run.cancel_requested",
    ]

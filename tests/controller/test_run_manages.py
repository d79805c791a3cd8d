"""A run that makes triggers: the whole way, with real processes, over a socket, with the token it was given."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from reconcile.decide.authority import EVERYWHERE, Caller, Grant, Reach, Role
from reconcile.observations.observation import Observations
from reconcile.triggers.credentials import create_token
from revisions.store.database import Database
from tests.contract.service import Service
from tests.controller.asking import BY_HAND, IS_NEW, T, manifest, task_manifest
from tests.controller.test_serve import RunningProcess
from tests.waiting import eventually

SCRIPT = """
import json, os, sys, urllib.error, urllib.request

def put(project):
    body = json.dumps({"spec": {"task_version": "v1", "schedule": {"every": "1s"}, "overlap": "allow"}}).encode()
    asked = urllib.request.Request(
        os.environ["TRIGGERCTL_URL"] + f"/api/v1/triggers/{project}/production/report/made", body, method="PUT",
        headers={"Authorization": "Bearer " + os.environ["TRIGGERCTL_TOKEN"], "If-None-Match": "*"})
    try:
        return urllib.request.urlopen(asked).status
    except urllib.error.HTTPError as error:
        return error.code

token = os.environ["TRIGGERCTL_TOKEN"]
print("with", token)
open(sys.argv[1], "w").write(token)
json.dump({project: put(project) for project in ("acme", "other")}, open(os.environ["TRIGGERCTL_OUTPUT"], "w"))
"""
MADE = "/api/v1/triggers/acme/production/report/made"


class Guarded:
    """A controller that wants to know who asks; `ci` may deploy in acme."""

    def __init__(self, database: Database, work_dir: Path, port: int) -> None:
        grant = Grant(Role.DEPLOYER, Reach(frozenset({"acme"})))
        ci = create_token(database, Observations(), "ci", grant, None, EVERYWHERE, Caller("root"))
        self.up = RunningProcess(database, work_dir, listen=f"127.0.0.1:{port}")
        self.up.client.headers["Authorization"] = f"Bearer {ci.secret}"

    def run_of(self, task: dict[str, Any]) -> dict[str, Any]:
        """Registers the task as v2, deploys a trigger for it, fires it, and answers the run once it is over."""
        client = self.up.client
        for version, body in (("v1", task_manifest()), ("v2", task)):
            assert client.put(f"/api/v1/tasks/acme/production/report/{version}", json=body).status_code == 201
        spec = manifest(task_version="v2", **BY_HAND)
        assert client.put(f"/api/v1{T}", json=spec, headers=IS_NEW).status_code == 201
        run_id = client.post(f"/api/v1{T}/fire").json()["id"]
        path = f"/api/v1/runs/{run_id}"
        return eventually(lambda: run if (run := client.get(path).json())["finished_at"] else None)


@pytest.fixture
def guarded(database_url: str, tmp_path: Path, port: int) -> Iterator[Guarded]:
    with ExitStack() as stack:
        database = stack.enter_context(Database(database_url))
        guarded = Guarded(database, tmp_path / "work", port)
        stack.callback(guarded.up.stop)
        yield guarded


def test_a_trigger_made_by_a_run_fires(guarded: Guarded, tmp_path: Path) -> None:
    """X-13: within its project and nowhere else; its history names the run; the token is dead once the run is over."""
    client, shown = guarded.up.client, tmp_path / "token"
    run = guarded.run_of(task_manifest(process={"command": ["python3", "-c", SCRIPT, str(shown)]}))
    assert run["status"] == "succeeded", run
    assert run["output"] == {"acme": 201, "other": 403}
    [revision] = client.get(f"{MADE}/revisions").json()["items"]
    assert revision["actor"] == f"run:{run['id']} of acme/production/report/tick"
    eventually(lambda: client.get("/api/v1/runs", params={"trigger": MADE.split("triggers/")[1]}).json()["items"])
    token = shown.read_text()
    assert token.startswith("tcr_")
    assert client.get("/api/v1/triggers", headers={"Authorization": f"Bearer {token}"}).status_code == 401
    assert client.get(f"/api/v1/runs/{run['id']}/logs").text == f"with {'*' * len(token)}\n"


def test_a_service_calls_back_with_the_runs_token(guarded: Guarded) -> None:
    """X-10, X-13: the request carries it, and callback and heartbeat take it."""
    with Service() as service:
        run = guarded.run_of({"spec": {"launcher": "http", "http": {"url": f"{service.url}/accept"}}})
        assert (run["status"], run["output"]) == ("succeeded", {"beat": "running"})
        assert service.seen[0].headers["triggerctl-token"].startswith("tcr_")

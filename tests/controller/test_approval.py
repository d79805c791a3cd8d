"""Approving and rejecting runs, by API and by command."""

import json
from typing import Any

import pytest

from tests.controller.asking import IS_NEW, NAME, Api, T, manifest
from tests.controller.conftest import Cli
from tests.world import World


@pytest.fixture
def parked(api: Api, world: World) -> dict[str, Any]:
    """A run that waits for approval."""
    api.create(requires_approval=True)
    world.advance(minutes=1)
    world.resync()
    run: dict[str, Any]
    [run] = api.get("/runs", status="parked").json()["items"]
    return run


def test_a_run_is_approved_by_name(api: Api, cli: Cli, parked: dict[str, Any]) -> None:
    """X-14: the answer says who and when; asking again changes nothing."""
    assert (parked["approved_at"], parked["approved_by"]) == (None, None)
    assert api.get(T).json()["status"]["last_outcome"] == "parked"
    said = cli("--actor", "bob", "--output", "json", "runs", "approve", parked["id"])
    approved = json.loads(said.out)
    assert (approved["status"], approved["approved_by"], approved["approved_at"]) == (
        "pending",
        "bob",
        "2026-03-02T08:01:00Z",
    )
    again = api.post(f"/runs/{parked['id']}/approve")
    assert (again.status_code, again.json()) == (200, approved)
    assert api.get(f"{T}/occurrences").json()["items"][0]["outcome"] == "started"
    assert api.get("/runs", status="parked").json()["items"] == []


def test_a_run_is_rejected_with_a_reason(api: Api, cli: Cli, parked: dict[str, Any]) -> None:
    """X-14: by the command that cancels others; it is over then."""
    said = cli("--actor", "bob", "runs", "cancel", parked["id"], "--reason", "wrong client")
    assert (said.status, "cancelled" in said.out) == (0, True)
    assert api.get(f"/runs/{parked['id']}").json()["error"] == "rejected by bob: wrong client"
    refused = api.post(f"/runs/{parked['id']}/approve")
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (409, "status")
    assert "runs retry" in refused.json()["errors"][0]["hint"]
    assert cli("runs", "approve", parked["id"]).status == 4


def test_what_is_parked_says_so_wherever_one_looks(api: Api, cli: Cli, parked: dict[str, Any]) -> None:
    """X-14, U-03: in lists, in the ledger, and with what to do next."""
    assert parked["id"] in cli("runs", "list", "--status", "parked").out
    assert " parked " in cli("list").out
    assert f"runs approve {parked['id']}" in cli("explain", NAME).out
    assert (api.get(f"/runs/{parked['id']}").json()["waits_for"], "waits_for" in parked) == ("an approval", False)
    assert "an approval" in cli("runs", "show", parked["id"]).out
    assert api.get(f"{T}/occurrences").json()["items"][0]["outcome"] == "parked"


def test_an_unknown_run_cannot_be_approved(api: Api) -> None:
    """X-14: neither one that is none nor one that is not there."""
    assert api.post("/runs/x/approve").status_code == 404
    assert api.post(f"/runs/{'0' * 26}/approve").status_code == 404


@pytest.mark.parametrize("written", ["yes", 1, None])
def test_whether_it_is_required_is_true_or_false(api: Api, written: object) -> None:
    """X-14, R-18: nothing that only looks like it."""
    answer = api.put(T, manifest(requires_approval=written), IS_NEW)
    assert [fault["path"] for fault in answer.json()["errors"]] == ["spec.requires_approval"]

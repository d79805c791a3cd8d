"""Freezes, blackouts and backlogs by command."""

import json
from datetime import timedelta
from typing import Any

import pytest

from revisions.clock import HandClock
from tests.controller.conftest import Cli, Said, Write
from tests.world import World, trigger_document

T = "acme/production/report/tick"


def answer(said: Said) -> Any:
    assert said.status == 0, said.err
    return json.loads(said.out)


def refused(said: Said, status: int, *words: str) -> None:
    assert (said.status, said.out) == (status, "")
    for word in words:
        assert word in said.err


def test_freezing_and_lifting(cli: Cli, world: World) -> None:
    """S-13: list and show say what holds a trigger, a fire by hand is refused with the way out."""
    world.create()
    assert "HELD BY" not in cli("list").out
    frozen = cli(
        "--actor", "ann", "freeze", "--project", "acme", "--reason", "stocktaking", "--until", "2026-03-03T08:00:00Z"
    )
    assert (frozen.status, "project acme" in frozen.out, "in force" in frozen.out) == (0, True, True)
    assert "freeze until 2026-03-03T08:00:00Z" in cli("list").out
    assert "freeze until 2026-03-03T08:00:00Z, by ann: stocktaking" in cli("show", T).out
    refused(cli("fire", T), 4, "is frozen until 2026-03-03T08:00:00Z by ann", "triggerctl unfreeze --project acme")
    longer = answer(cli("--output", "json", "freeze", "--project", "acme", "--reason", "it takes longer"))
    assert (longer["until"], longer["revision"]) == (None, 2)
    assert "freeze until it is lifted" in cli("list").out
    lifted = answer(cli("--output", "json", "unfreeze", "--project", "acme", "--reason", "done"))
    assert [(one["state"], one["reason"]) for one in lifted["items"]] == [("over", "done")]
    assert cli("fire", T).status == 0
    refused(cli("unfreeze"), 3, "there is no freeze of everything", "triggerctl blackout list")
    refused(cli("unfreeze", "--project", "acme"), 3)
    refused(cli("freeze"), 2, "--reason")
    refused(cli("freeze", "--reason", " "), 5, "reason: is missing")
    refused(cli("freeze", "--reason", "x", "--until", "2020-01-01T00:00:00Z"), 5, "until: 2020-01-01T00:00:00Z is past")


def test_a_name_that_nothing_bears_is_told(cli: Cli, world: World) -> None:
    """S-13, U-01: it may be meant for later, and may be mistyped; the answer stays the same."""
    world.create()
    until = ("--until", "2026-03-03T08:00:00Z", "--reason", "x")
    assert cli("freeze", "--project", "acme", *until).err == ""
    assert cli("freeze", *until).err == ""
    assert cli("freeze", "--project", "acmee", *until).err == "note: there is no trigger of project acmee yet\n"
    mistyped = cli("blackout", "add", "--project", "acme", "--tag", "y", *until)
    assert mistyped.err == "note: there is no trigger of tag y of project acme yet\n"
    assert (mistyped.status, "tag y of project acme" in mistyped.out) == (0, True)


def test_a_blackout_from_announced_to_ended(cli: Cli, world: World) -> None:
    """S-13: for whom, from when, what becomes of what falls in; listed while it matters, in the history for good."""
    world.create(overlap="allow")
    until = ("--until", "2026-03-02T08:10:00Z", "--reason", "the move")
    made = answer(cli("--output", "json", "blackout", "add", "--trigger", T, "--mode", "defer", *until))
    tagged = cli("blackout", "add", "--project", "acme", "--tag", "x", "--from", "2026-03-02T08:05:00Z", *until)
    assert "tag x of project acme" in tagged.out
    assert "to come" in tagged.out
    listed = [line.split() for line in cli("blackout", "list").out.splitlines()]
    assert [line[1] for line in listed] == ["KIND", "blackout", "blackout"]
    for _ in range(2):
        world.advance(minutes=1)
        world.resync()
    assert world.runs() == []
    ahead = cli("next", T, "-n", "1").out
    assert "2026-03-02T08:10:00Z" in ahead
    assert "held: 7 from 2026-03-02T08:03:00 to 2026-03-02T08:09:00 (blackout)" in ahead
    ended = answer(cli("--output", "json", "blackout", "end", made["id"].lower(), "--reason", "it went well"))
    assert (ended["until"], ended["reason"], ended["revision"]) == ("2026-03-02T08:02:00Z", "it went well", 2)
    world.resync()
    world.resync()
    assert len(world.runs()) == 2
    assert made["id"] not in cli("blackout", "list").out
    assert made["id"] in cli("blackout", "list", "--all").out
    refused(cli("blackout", "end", made["id"]), 4, "was over at 2026-03-02T08:02:00Z")
    refused(cli("blackout", "end", "nonsense"), 5, "is not a blackout's id", "triggerctl blackout list")
    refused(cli("blackout", "add", "--mode", "later", *until), 5, "mode: 'later'", "drop, one, defer")
    refused(cli("blackout", "add", "--trigger", T, "--tag", "x", *until), 5, "trigger: stands beside")
    refused(cli("blackout", "add", "--reason", "x"), 2, "--until")


@pytest.fixture
def behind(world: World) -> World:
    """A trigger of which 1,240 occurrences wait to be caught up."""
    world.create(overlap="allow", catchup={"policy": "all"})
    world.advance(minutes=1242)
    world.another_loop_without_catch_up().resync()
    return world


def test_a_backlog_in_a_sentence(cli: Cli, behind: World) -> None:
    """L-17: how many are left, and for how long."""
    shown = cli("catchup", T)
    assert "still to catch up: later than 2026-03-02T08:00:00Z, up to 2026-03-03T04:40:00Z" in shown.out
    assert "1,240 occurrences left, about 6 minutes at the present pace." in shown.out
    cli("freeze", "--reason", "stocktaking")
    frozen = cli("catchup", T).out
    assert "1,240 occurrences left; a freeze by " in frozen
    assert "until somebody lifts it (stocktaking)" in frozen


def test_giving_it_up(cli: Cli, behind: World) -> None:
    """L-17: recorded with who and why; nothing is left, and there is nothing to give up again."""
    given_up = cli("--actor", "ann", "catchup", T, "--drop", "--reason", "too late")
    assert "given up: more than 1,000 from 2026-03-02T08:01:00Z to 2026-03-03T04:40:00Z" in given_up.out
    assert given_up.out.endswith("Nothing is left to catch up.\n")
    [skip] = behind.skips()
    assert (skip.outcome, skip.reason) == ("missed", "dropped by ann: too late")
    refused(cli("catchup", T, "--drop"), 4, "has no backlog")
    assert answer(cli("--output", "json", "catchup", T))["remaining"] == 0


def test_a_watermark_set_back(cli: Cli, world: World, clock: HandClock) -> None:
    """L-12: shown with the way out, then recorded as a revision."""
    world.create(overlap="allow")
    world.advance(minutes=5)
    world.resync()
    refused(cli("catchup", T, "--rebase"), 4, "is not ahead of now")
    clock.step(-timedelta(minutes=3))
    assert f"`triggerctl catchup {T} --rebase` sets it back" in cli("catchup", T).out
    back = answer(cli("--output", "json", "--actor", "ann", "catchup", T, "--rebase", "--reason", "clock"))
    assert (back["revision"], back["changed_by"]) == (2, "ann")
    assert world.history()[0].reason == "watermark set back from 2026-03-02T08:05:00Z: clock"


def test_wrong_usage_of_catchup(cli: Cli, world: World) -> None:
    """U-01: one of the two, and a reason only for what is recorded."""
    refused(cli("catchup", T, "--drop", "--rebase"), 2)
    refused(cli("catchup", T, "--reason", "x"), 2, "--reason")
    refused(cli("catchup", T), 3, f"there is no trigger {T}")
    refused(cli("catchup", "tick"), 5, "project/domain/task/name")


def test_days_off_by_the_dozen_are_told_in_short(cli: Cli, world: World, write: Write) -> None:
    """S-09: up to three one by one, more as a stretch."""
    closed = {"every": "1h", "exclude": ["2026-03-03"]}
    file = write("t.yaml", trigger_document(schedule=closed))
    out = cli("next", "--file", file, "-n", "20").out
    assert "left out: 24 from 2026-03-03T00:00:00 to 2026-03-03T23:00:00 (exclude)" in out

"""Commands for freezes, blackouts and backlogs."""

import json
from datetime import timedelta
from typing import Any

import pytest

from revisions.clock import HandClock
from tests.controller.conftest import ON_SQLITE, Cli, CommandResult, Write
from tests.world import World, trigger_document

pytestmark = ON_SQLITE  # test_api_*.py test the same requests on PostgreSQL too

T = "acme/production/report/tick"


def answer(result: CommandResult) -> Any:
    assert result.status == 0, result.err
    return json.loads(result.out)


def refused(result: CommandResult, status: int, *words: str) -> None:
    assert (result.status, result.out) == (status, "")
    for word in words:
        assert word in result.err


def test_a_freeze_is_shown_changed_and_lifted(cli: Cli, world: World) -> None:
    """S-13: list and show name it, and a fire by hand is refused with the way out."""
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


def test_a_hold_on_an_unknown_project_or_tag_is_noted(cli: Cli, world: World) -> None:
    """S-13, U-01: the name may be meant for later, or mistyped; the answer is the same."""
    world.create()
    until = ("--until", "2026-03-03T08:00:00Z", "--reason", "x")
    assert cli("freeze", "--project", "acme", *until).err == ""
    assert cli("freeze", *until).err == ""
    assert cli("freeze", "--project", "acmee", *until).err == "note: there is no trigger of project acmee yet\n"
    mistyped = cli("blackout", "add", "--project", "acme", "--tag", "y", *until)
    assert mistyped.err == "note: there is no trigger of tag y of project acme yet\n"
    assert (mistyped.status, "tag y of project acme" in mistyped.out) == (0, True)


def test_a_blackout_is_added_listed_and_ended(cli: Cli, world: World) -> None:
    """S-13: listed while it is in force or to come, and later with --all."""
    world.create(overlap="allow")
    until = ("--until", "2026-03-02T08:10:00Z", "--reason", "the move")
    blackout = answer(cli("--output", "json", "blackout", "add", "--trigger", T, "--mode", "defer", *until))
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
    ended = answer(cli("--output", "json", "blackout", "end", blackout["id"].lower(), "--reason", "it went well"))
    assert (ended["until"], ended["reason"], ended["revision"]) == ("2026-03-02T08:02:00Z", "it went well", 2)
    world.resync()
    world.resync()
    assert len(world.runs()) == 2
    assert blackout["id"] not in cli("blackout", "list").out
    assert blackout["id"] in cli("blackout", "list", "--all").out
    refused(cli("blackout", "end", blackout["id"]), 4, "was over at 2026-03-02T08:02:00Z")
    refused(cli("blackout", "end", "nonsense"), 5, "is not a blackout's id", "triggerctl blackout list")
    refused(cli("blackout", "add", "--mode", "later", *until), 5, "mode: 'later'", "drop, one, defer")
    refused(cli("blackout", "add", "--trigger", T, "--tag", "x", *until), 5, "trigger: stands beside")
    refused(cli("blackout", "add", "--reason", "x"), 2, "--until")


@pytest.fixture
def behind(world: World) -> World:
    """A trigger with a backlog of 1,240 occurrences."""
    world.create(overlap="allow", catchup={"policy": "all"})
    world.advance(minutes=1242)
    world.another_loop_without_catch_up().resync()
    return world


def test_catchup_shows_the_backlog_and_its_duration(cli: Cli, behind: World) -> None:
    """L-17: or the hold that stops it."""
    shown = cli("catchup", T)
    assert "still to catch up: later than 2026-03-02T08:00:00Z, up to 2026-03-03T04:40:00Z" in shown.out
    assert "1,240 occurrences left, about 6 minutes at the present pace." in shown.out
    cli("freeze", "--reason", "stocktaking")
    frozen = cli("catchup", T).out
    assert "1,240 occurrences left; a freeze by " in frozen
    assert "until somebody lifts it (stocktaking)" in frozen


def test_catchup_drop_records_actor_and_reason(cli: Cli, behind: World) -> None:
    """L-17: afterwards there is nothing left to drop."""
    given_up = cli("--actor", "ann", "catchup", T, "--drop", "--reason", "too late")
    assert "dropped: more than 1,000 from 2026-03-02T08:01:00Z to 2026-03-03T04:40:00Z" in given_up.out
    assert given_up.out.endswith("Nothing is left to catch up.\n")
    [skip] = behind.skips()
    assert (skip.outcome, skip.reason) == ("missed", "dropped by ann: too late")
    refused(cli("catchup", T, "--drop"), 4, "has no backlog")
    assert answer(cli("--output", "json", "catchup", T))["remaining"] == 0


def test_catchup_rebase_sets_a_watermark_in_the_future_back(cli: Cli, world: World, clock: HandClock) -> None:
    """L-12: the state is shown with the way out, and the change is a revision."""
    world.create(overlap="allow")
    world.advance(minutes=5)
    world.resync()
    refused(cli("catchup", T, "--rebase"), 4, "is not ahead of now")
    clock.step(-timedelta(minutes=3))
    assert f"`triggerctl catchup {T} --rebase` sets it back" in cli("catchup", T).out
    back = answer(cli("--output", "json", "--actor", "ann", "catchup", T, "--rebase", "--reason", "clock"))
    assert (back["revision"], back["changed_by"]) == (2, "ann")
    assert world.history()[0].reason == "watermark set back from 2026-03-02T08:05:00Z: clock"


def test_catchup_refuses_contradicting_options_and_unknown_names(cli: Cli, world: World) -> None:
    """U-01: --drop and --rebase exclude each other, --reason needs one of them."""
    refused(cli("catchup", T, "--drop", "--rebase"), 2)
    refused(cli("catchup", T, "--reason", "x"), 2, "--reason")
    refused(cli("catchup", T), 3, f"there is no trigger {T}")
    refused(cli("catchup", "tick"), 5, "project/domain/task/name")


def test_next_summarizes_more_than_three_skipped_times(cli: Cli, world: World, write: Write) -> None:
    """S-09: up to three are listed one by one."""
    closed = {"every": "1h", "exclude": ["2026-03-03"]}
    file = write("t.yaml", trigger_document(schedule=closed))
    out = cli("next", "--file", file, "-n", "20").out
    assert "left out: 24 from 2026-03-03T00:00:00 to 2026-03-03T23:00:00 (exclude)" in out

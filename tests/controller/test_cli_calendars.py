"""Calendars by command, one by one and in a folder."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.controller.conftest import Cli, Said, Write
from tests.world import World, task_document, trigger_document

HOLIDAYS = "acme/holidays"
AT_NINE = {"cron": "0 9 * * *", "calendars": ["holidays"]}


def calendar_document(*dates: str, name: str = "holidays", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "triggerctl/v1",
        "kind": "Calendar",
        "metadata": {"project": "acme", "name": name},
        "spec": {"owner": "ann", "dates": list(dates), **spec},
    }


def answer(said: Said) -> Any:
    assert said.status == 0, said.err
    return json.loads(said.out)


def refused(said: Said, status: int, *words: str) -> None:
    assert (said.status, said.out) == (status, ""), said.err
    for word in words:
        assert word in said.err


def test_a_calendar_from_first_to_last(cli: Cli, write: Write, world: World) -> None:
    """S-13, R-04: deployed as new, changed under the revision that was read, listed, shown, deleted."""
    file = write("c.yaml", calendar_document("2026-12-24/2026-12-26", reason="public"))
    made = answer(cli("--output", "json", "--actor", "ann", "calendar", "deploy", file))
    assert (made["revision"], made["changed"], made["changed_by"]) == (1, True, "ann")
    refused(cli("calendar", "deploy", file), 4, "acme/holidays exists already, at revision 1", "--expected-revision 1")
    assert "changed   no" in cli("calendar", "deploy", file, "--expected-revision", "1").out
    file = write("c.yaml", calendar_document("2026-12-25"))
    refused(cli("calendar", "deploy", file, "--expected-revision", "7"), 4, "stands at revision 1, not 7")
    assert answer(cli("--output", "json", "calendar", "deploy", file, "--expected-revision", "1"))["revision"] == 2
    assert "2026-12-25" in cli("calendar", "show", HOLIDAYS).out
    assert [line.split()[:4] for line in cli("calendar", "list", "--project", "acme").out.splitlines()[1:]] == [
        ["acme/holidays", "2", "ann", "1"]
    ]
    history = cli("calendar", "history", HOLIDAYS).out.splitlines()
    assert [line.split()[:2] for line in history[1:]] == [["2", "DEPLOY"], ["1", "DEPLOY"]]
    gone = cli("calendar", "delete", HOLIDAYS)
    assert (gone.status, gone.err) == (0, "expected revision 2, read now\n")
    assert cli("calendar", "list").out.splitlines()[1:] == []
    refused(cli("calendar", "delete", HOLIDAYS), 3, "expected revision 3", "there is no calendar acme/holidays")
    refused(cli("calendar", "show", "acme/none"), 3, "triggerctl calendar list")
    refused(cli("calendar", "show", "none"), 5, "project/name")


def test_what_is_no_calendar_is_refused(cli: Cli, write: Write, world: World) -> None:
    """R-18, S-13: with file, field and the way out; other kinds are told where they go."""
    wrong = write("c.yaml", calendar_document("2026-12-32"))
    refused(cli("calendar", "deploy", wrong), 5, "c.yaml: spec.dates[0]", 'write a date such as "2026-12-25"')
    refused(cli("calendar", "deploy", write("t.yaml", trigger_document())), 5, "holds Trigger", "triggerctl deploy")
    refused(cli("deploy", write("c.yaml", calendar_document())), 5, "holds Calendar", "triggerctl calendar deploy")


def test_one_that_triggers_name_stays(cli: Cli, write: Write, world: World) -> None:
    """S-13: the refusal names them; the change of one moves when they fire."""
    cli("calendar", "deploy", write("c.yaml", calendar_document("2026-12-25")))
    world.create(schedule=AT_NINE)
    refused(cli("calendar", "delete", HOLIDAYS), 4, "acme/production/report/tick", "deploy those triggers without it")
    cli("calendar", "deploy", write("c.yaml", calendar_document("2026-03-02")), "--expected-revision", "1")
    world.resync()
    shown = answer(cli("--output", "json", "show", "acme/production/report/tick"))
    assert (shown["status"]["next_fire_at"], shown["revision"]) == ("2026-03-03T09:00:00Z", 1)
    ahead = cli("next", "acme/production/report/tick", "-n", "1").out
    assert "left out: 2026-03-02T09:00:00 (holidays)" in ahead


@pytest.fixture
def fill(tmp_path: Path, write: Write) -> Callable[..., None]:
    """Makes the folder `f` of these documents; it calls itself `team`."""

    def fill(*documents: Any) -> None:
        (tmp_path / "f").mkdir(exist_ok=True)
        (tmp_path / "f" / "triggerctl.yaml").write_text("origin: team\n")
        write("f/all.yaml", *documents)

    return fill


def steps(cli: Cli, *options: str) -> list[tuple[str, str]]:
    found = answer(cli("--output", "json", "plan", "f", *options))
    return [(change["action"], change["name"].rpartition("/")[2]) for change in found["changes"]]


def test_a_folder_with_a_calendar(cli: Cli, fill: Callable[..., None], world: World) -> None:
    """U-02, S-13: before the trigger that needs it, wherever it stands; changed under the revision that was read."""
    fill(trigger_document("a", schedule=AT_NINE), calendar_document("2026-12-25"), task_document("v2"))
    assert steps(cli) == [("register", "report@v2"), ("create", "holidays"), ("create", "a")]
    said = cli("apply", "f", "--yes")
    assert (said.status, said.err) == (0, "")
    assert "created Calendar acme/holidays, revision 1\n" in said.out
    assert cli("apply", "f").out == "Nothing to do; 3 unchanged.\n"
    fill(trigger_document("a", schedule=AT_NINE), calendar_document("2026-12-25", "2026-12-26"), task_document("v2"))
    assert cli("plan", "f").out.splitlines()[:2] == [
        "~ change Calendar acme/holidays  (revision 1)",
        '    + spec.dates[1]  "2026-12-26"',
    ]
    assert cli("apply", "f", "--yes").status == 0
    assert answer(cli("--output", "json", "calendar", "show", HOLIDAYS))["revision"] == 2


def test_pruning_leaves_calendars_alone(cli: Cli, fill: Callable[..., None], world: World) -> None:
    """R-22, S-13: they bear no origin; the trigger goes, its calendar stays."""
    fill(trigger_document("a", schedule=AT_NINE), trigger_document("b"), calendar_document("2026-12-25"))
    assert cli("apply", "f", "--yes").status == 0
    fill(trigger_document("b"))
    assert steps(cli, "--prune") == [("delete", "a")]
    assert cli("apply", "f", "--prune", "--yes").status == 0
    assert answer(cli("--output", "json", "calendar", "show", HOLIDAYS))["deleted"] is False


def test_faults_of_calendars_in_a_folder(cli: Cli, fill: Callable[..., None], world: World) -> None:
    """U-02, R-18, S-13: all at once, with their places: no date, one that stands twice, one that is nowhere."""
    fill(calendar_document("Easter"), calendar_document(name="b"), calendar_document(name="b"))
    refused(
        cli("plan", "f"),
        5,
        "f/all.yaml, document 1, line 1: spec.dates[0]",
        "Calendar acme/b stands in f/all.yaml, document 2",
    )
    fill(trigger_document("a", schedule=AT_NINE), calendar_document(name="feasts"))
    refused(cli("plan", "f"), 5, "f/all.yaml, document 1, line 1: spec.schedule.calendars[0]", "there are feasts")
    refused(cli("apply", "f", "--yes"), 5, "no calendar 'holidays'")
    assert cli("calendar", "list").out.splitlines()[1:] == []


def test_bounds_that_are_over_stop_a_plan(cli: Cli, fill: Callable[..., None], world: World) -> None:
    """S-02, S-07, U-02: known from the plan on, as for a single instant."""
    fill(trigger_document("a", schedule={"every": "1h", "until": "2026-01-01T00:00:00Z"}))
    refused(cli("plan", "f"), 5, "f/all.yaml: spec.schedule.until", "is past")


def test_a_calendar_changed_in_between_is_a_conflict(
    cli: Cli, fill: Callable[..., None], write: Write, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-04, U-02: it is not overwritten, and the exit status says so."""
    fill(calendar_document("2026-12-25"))
    file = write("c.yaml", calendar_document("2026-12-26"))
    monkeypatch.setattr("controller.cli.plan._ask", lambda _: world_deploys(world, file))
    said = cli("apply", "f")
    assert said.status == 4
    assert "conflict Calendar acme/holidays: calendar: acme/holidays exists already" in said.out


def world_deploys(world: World, file: str) -> None:
    """Somebody is faster."""
    from reconcile.decide.preconditions import Expected
    from reconcile.triggers.calendars import deploy_calendar
    from reconcile.triggers.caller import Caller
    from revisions.spec.calendar import CalendarManifest

    document = json.loads(Path(file).read_text())
    deploy_calendar(
        world.database, world.observations, CalendarManifest.read(document), Expected(absent=True), Caller("bob")
    )

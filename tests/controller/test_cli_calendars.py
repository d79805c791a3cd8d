"""Commands for calendars, and calendars in a folder."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.controller.conftest import ON_SQLITE, Cli, CommandResult, Confirmation, Write
from tests.world import World, task_document, trigger_document

pytestmark = ON_SQLITE  # test_api_*.py test the same requests on PostgreSQL too

HOLIDAYS = "acme/holidays"
AT_NINE = {"cron": "0 9 * * *", "calendars": ["holidays"]}


def calendar_document(*dates: str, name: str = "holidays", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "triggerctl/v1",
        "kind": "Calendar",
        "metadata": {"project": "acme", "name": name},
        "spec": {"owner": "ann", "dates": list(dates), **spec},
    }


def answer(result: CommandResult) -> Any:
    assert result.status == 0, result.err
    return json.loads(result.out)


def refused(result: CommandResult, status: int, *words: str) -> None:
    assert (result.status, result.out) == (status, ""), result.err
    for word in words:
        assert word in result.err


def test_a_calendar_is_deployed_listed_shown_and_deleted(cli: Cli, write: Write, world: World) -> None:
    """S-13, R-04: changed only under the revision that was read."""
    file = write("c.yaml", calendar_document("2026-12-24/2026-12-26", reason="public"))
    deployed = answer(cli("--output", "json", "--actor", "ann", "calendar", "deploy", file))
    assert (deployed["revision"], deployed["changed"], deployed["changed_by"]) == (1, True, "ann")
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
    deleted = cli("calendar", "delete", HOLIDAYS)
    assert (deleted.status, deleted.err) == (0, "expected revision 2, read now\n")
    assert cli("calendar", "list").out.splitlines()[1:] == []
    refused(cli("calendar", "delete", HOLIDAYS), 3, "expected revision 3", "there is no calendar acme/holidays")
    refused(cli("calendar", "show", "acme/none"), 3, "triggerctl calendar list")
    refused(cli("calendar", "show", "none"), 5, "project/name")


def test_a_wrong_calendar_is_refused_by_file_and_path(cli: Cli, write: Write, world: World) -> None:
    """R-18, S-13: for other kinds the hint names their command."""
    wrong = write("c.yaml", calendar_document("2026-12-32"))
    refused(cli("calendar", "deploy", wrong), 5, "c.yaml: spec.dates[0]", 'write a date such as "2026-12-25"')
    refused(cli("calendar", "deploy", write("t.yaml", trigger_document())), 5, "holds Trigger", "triggerctl deploy")
    refused(cli("deploy", write("c.yaml", calendar_document())), 5, "holds Calendar", "triggerctl calendar deploy")


def test_a_calendar_that_triggers_name_is_not_deleted(cli: Cli, write: Write, world: World) -> None:
    """S-13: the refusal names them; a change of the calendar moves their next fire."""
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
    """Create the folder `f` with these documents and the origin `team`."""

    def fill(*documents: Any) -> None:
        (tmp_path / "f").mkdir(exist_ok=True)
        (tmp_path / "f" / "triggerctl.yaml").write_text("origin: team\n")
        write("f/all.yaml", *documents)

    return fill


def steps(cli: Cli, *options: str) -> list[tuple[str, str]]:
    plan = answer(cli("--output", "json", "plan", "f", *options))
    return [(change["action"], change["name"].rpartition("/")[2]) for change in plan["changes"]]


def test_a_calendar_is_applied_before_the_trigger_that_names_it(
    cli: Cli, fill: Callable[..., None], world: World
) -> None:
    """U-02, S-13: wherever it is in the folder, and changed under the revision that was read."""
    fill(trigger_document("a", schedule=AT_NINE), calendar_document("2026-12-25"), task_document("v2"))
    assert steps(cli) == [("register", "report@v2"), ("create", "holidays"), ("create", "a")]
    result = cli("apply", "f", "--yes")
    assert (result.status, result.err) == (0, "")
    assert "created Calendar acme/holidays, revision 1\n" in result.out
    assert cli("apply", "f").out == "Nothing to do; 3 unchanged.\n"
    fill(trigger_document("a", schedule=AT_NINE), calendar_document("2026-12-25", "2026-12-26"), task_document("v2"))
    assert cli("plan", "f").out.splitlines()[:2] == [
        "~ change Calendar acme/holidays  (revision 1)",
        '    + spec.dates[1]  "2026-12-26"',
    ]
    assert cli("apply", "f", "--yes").status == 0
    assert answer(cli("--output", "json", "calendar", "show", HOLIDAYS))["revision"] == 2


def test_prune_does_not_delete_calendars(cli: Cli, fill: Callable[..., None], world: World) -> None:
    """R-22, S-13: they have no origin."""
    fill(trigger_document("a", schedule=AT_NINE), trigger_document("b"), calendar_document("2026-12-25"))
    assert cli("apply", "f", "--yes").status == 0
    fill(trigger_document("b"))
    assert steps(cli, "--prune") == [("delete", "a")]
    assert cli("apply", "f", "--prune", "--yes").status == 0
    assert answer(cli("--output", "json", "calendar", "show", HOLIDAYS))["deleted"] is False


def test_faults_of_calendars_in_a_folder_are_reported_together(
    cli: Cli, fill: Callable[..., None], world: World
) -> None:
    """U-02, R-18, S-13: a wrong date, a duplicate and a missing calendar, each with its place."""
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


def test_a_schedule_that_has_ended_stops_a_plan(cli: Cli, fill: Callable[..., None], world: World) -> None:
    """S-02, S-07, U-02: as a single past instant does."""
    fill(trigger_document("a", schedule={"every": "1h", "until": "2026-01-01T00:00:00Z"}))
    refused(cli("plan", "f"), 5, "f/all.yaml: spec.schedule.until", "is past")


def test_a_calendar_changed_in_between_is_a_conflict(
    cli: Cli, fill: Callable[..., None], write: Write, world: World
) -> None:
    """R-04, U-02: it is not overwritten, and the exit status is 4."""
    fill(calendar_document("2026-12-25"))
    file = write("c.yaml", calendar_document("2026-12-26"))
    result = cli("apply", "f", stdin=Confirmation(lambda: deploy_calendar(world, file)))
    assert result.status == 4
    assert "conflict Calendar acme/holidays: calendar: acme/holidays exists already" in result.out


def deploy_calendar(world: World, file: str) -> None:
    """Deploy a new calendar as `bob`."""
    from reconcile.decide.authority import Caller
    from reconcile.decide.preconditions import Expected
    from reconcile.triggers.calendars import deploy_calendar
    from revisions.spec.manifest import CalendarManifest

    document = json.loads(Path(file).read_text())
    deploy_calendar(
        world.database, world.observations, CalendarManifest.read(document), Expected(absent=True), Caller("bob")
    )

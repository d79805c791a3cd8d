"""Bad input on the command line: an exit status per kind, a message on standard error, no traceback."""

import json
from typing import Any

import pytest
from sqlalchemy import select, text

from controller.cli.error_messages import report_error
from revisions.store import schema, tables
from revisions.store.database import Database
from tests.controller.conftest import ON_SQLITE, Cli, CommandResult, Write
from tests.world import task_document, trigger_document

T = "acme/production/report/tick"


def failed(result: CommandResult, status: int, *words: str) -> None:
    assert (result.status, result.out) == (status, ""), result.err
    assert "Traceback" not in result.err
    for word in words:
        assert word in result.err


@pytest.fixture
def deployed(cli: Cli, write: Write) -> None:
    assert cli("task", "register", write("task.yaml", task_document())).status == 0
    assert cli("deploy", write("trigger.yaml", trigger_document())).status == 0


def with_metadata(**metadata: Any) -> dict[str, Any]:
    document = trigger_document()
    return document | {"metadata": document["metadata"] | metadata}


WRONG: dict[str, tuple[Any, int, tuple[str, ...]]] = {
    "field": (trigger_document(schedul={"every": "1m"}), 5, ("spec.schedul", "did you mean schedule?")),
    "zone": (
        trigger_document(schedule={"cron": "0 8 * * *", "timezone": "Europe/Berln"}),
        5,
        ("spec.schedule.timezone", "Europe/Berlin"),
    ),
    "expression": (trigger_document(schedule={"cron": "0 25 * * *"}), 5, ("spec.schedule.cron",)),
    "name": (with_metadata(name="Tick"), 5, ("'Tick' is not a valid name",)),
    "project missing": ({**trigger_document(), "metadata": {}}, 5, ("metadata.project: is missing",)),
    "task version": (trigger_document(task_version="v9"), 5, ("there is no report v9", "registered are v1")),
    "kind": ({**trigger_document(), "kind": "Triger"}, 5, ("Triger", "one Trigger is taken")),
    "YAML": ("kind: [1,\nfoo", 5, ("line 2", "column")),
    "tab in YAML": ("kind: Trigger\n\tspec: 1", 5, ("line 2, column 1",)),
    "nothing": ("", 5, ("holds nothing",)),
    "no mapping": ("- 1", 5, ("no manifest",)),
    "a number for a key": ("1: 2", 5, ("a key must be a string",)),
}


@ON_SQLITE
@pytest.mark.parametrize(("document", "status", "words"), WRONG.values(), ids=WRONG)
def test_a_wrong_manifest_is_refused_by_file_and_path(
    cli: Cli, write: Write, database: Database, deployed: None, document: Any, status: int, words: tuple[str, ...]
) -> None:
    """R-01, R-14, R-18, S-02, U-01: and the history is unchanged."""

    def contents() -> list[Any]:
        with database.read() as connection:
            return [connection.execute(select(table)).all() for table in (tables.trigger_revisions, tables.triggers)]

    before = contents()
    failed(cli("deploy", write("wrong.yaml", document), "--expected-revision", "1"), status, "wrong.yaml", *words)
    if document != WRONG["task version"][0]:  # a preview needs no task
        failed(cli("next", "--file", "wrong.yaml"), status, "wrong.yaml", *words)
    assert contents() == before


@ON_SQLITE
def test_an_unreadable_file_is_named_with_the_reason(cli: Cli, write: Write, deployed: None) -> None:
    """U-01: with the operating system's reason."""
    failed(cli("deploy", "none.yaml"), 5, "none.yaml", "No such file")
    failed(cli("deploy", "."), 5, "directory")
    failed(cli("task", "register", "none.yaml"), 5, "none.yaml")


@ON_SQLITE
def test_a_manifest_of_another_kind_names_its_command(cli: Cli, write: Write, deployed: None) -> None:
    """U-01: the message names the command that takes it."""
    failed(cli("deploy", "task.yaml"), 5, "triggerctl task register")
    failed(cli("task", "register", "trigger.yaml"), 5, "triggerctl deploy")
    both = write("both.yaml", task_document("v2"), trigger_document())
    failed(cli("task", "register", both), 5, "Trigger")
    failed(cli("deploy", both), 5, "Task, Trigger")
    failed(cli("deploy", write("two.yaml", trigger_document("a"), trigger_document("b"))), 5, "Trigger, Trigger")
    assert len(json.loads(cli("--output", "json", "task", "list").out)["items"]) == 1


@ON_SQLITE
def test_several_faults_are_listed_line_by_line(cli: Cli, write: Write, deployed: None) -> None:
    """U-01: each on its own line, then the next step."""
    result = cli("deploy", write("wrong.yaml", trigger_document(taks="x", catchup={"polcy": "all"})))
    failed(result, 5, "2 things are wrong", "wrong.yaml: spec.taks", "wrong.yaml: spec.catchup.polcy", "next: ")


@ON_SQLITE
@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["show", "a/b"], 5, ["project/domain/task/name"]),
        (["show", "acme/production/report/.."], 5, ["not a valid name"]),
        (["show", "acme/production/report/none"], 3, ["there is no trigger", "next:"]),
        (["history", "acme/production/report/none"], 3, []),
        (["show", T, "--revision", "9"], 3, ["has no revision 9"]),
        (["runs", "show", "x"], 5, ["not a run's id"]),
        (["runs", "show", "0" * 26], 3, ["there is no run"]),
        (["runs", "logs", "0" * 26], 3, []),
        (["runs", "list", "--status", "done"], 5, ["status"]),
        (["task", "show", "acme/production/report@v9"], 3, ["there are v1"]),
        (["task", "show", "report"], 5, ["project/domain/name@version"]),
        (["deactivate", T, "--until", "tomorrow"], 5, ["until"]),
        (["deactivate", T, "--until", "2020-01-01T00:00:00Z"], 5, ["is past"]),
        (["next", T, "--after", "now"], 5, ["after"]),
        (["list", "--cursor", "x"], 5, ["cursor"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_a_wrong_argument_has_its_exit_status_and_reason(
    cli: Cli, deployed: None, arguments: list[str], status: int, words: list[str]
) -> None:
    """U-01: 3 for not found, 5 for invalid."""
    failed(cli(*arguments), status, *words)


@ON_SQLITE
@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["list", "--nonsense"],
        ["show"],
        ["next"],
        ["next", T, "--file", "x"],
        ["--output", "xml", "list"],
        ["deploy", "x", "--expected-revision", "one"],
        ["--server", "http://127.0.0.1:9", "list"],
        ["up", "--without", "roof"],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2(cli: Cli, arguments: list[str]) -> None:
    """U-01: the message is on standard error."""
    failed(cli(*arguments), 2)


@ON_SQLITE
@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("sqlite:///none/there.db", 7),
        ("postgresql://nobody@127.0.0.1:1/nothing", 7),
        ("mysql://x/y", 5),
        ("nonsense", 5),
        ("sqlite://", 5),
    ],
)
@pytest.mark.parametrize("command", [["list"], ["db", "current"]], ids=" ".join)
def test_an_unusable_database_exits_with_7_or_5(cli: Cli, command: list[str], url: str, status: int) -> None:
    """O-05, U-01: 7 if it cannot be reached, 5 if the URL names none."""
    failed(cli(*command, database=url), status, "next:")


@ON_SQLITE
def test_a_password_in_the_database_url_is_not_shown(cli: Cli) -> None:
    """X-12: messages show the URL without it."""
    result = cli("list", database="postgresql://nobody:sesame@127.0.0.1:1/nothing")
    failed(result, 7)
    assert "sesame" not in result.err


@pytest.mark.parametrize("version", ["0000", "9999", None])
def test_a_database_of_another_schema_exits_with_7(cli: Cli, database: Database, version: str | None) -> None:
    """R-19: and the message names the next step."""
    if version is None:
        schema.downgrade(database, "base")
    else:
        with database.write() as connection:
            connection.execute(text(f"UPDATE alembic_version SET version_num = '{version}'"))
            connection.execute(text(f"UPDATE schema_support SET readable_since = '{version}'"))
    failed(cli("list"), 7, "use a release" if version == "9999" else "triggerctl db upgrade")


@ON_SQLITE
def test_an_unreachable_server_exits_with_7(cli: Cli) -> None:
    """U-01: and is named; a malformed URL is invalid, and --actor with --server wrong usage."""
    failed(cli("--server", "http://127.0.0.1:9", "list", database=None), 7, "http://127.0.0.1:9", "cannot be reached")
    failed(cli("--server", "localhost:8080", "list", database=None), 5, "http://host:8080")
    failed(cli("--server", "http://127.0.0.1:9", "--actor", "x", "list", database=None), 2)


@ON_SQLITE
def test_an_unknown_key_in_the_settings_file_is_refused(cli: Cli, write: Write) -> None:
    """U-01: by every command that reads settings, by name."""
    write("triggerctl.yaml", {"resync_intervall": "5s"})
    failed(cli("list"), 5, "resync_intervall", "did you mean resync_interval?")


def test_an_unexpected_error_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """U-01: exit status 1; with TRIGGERCTL_DEBUG the error is raised, with its traceback."""
    error = RuntimeError("no\nway")
    assert report_error(error) == 1
    assert capsys.readouterr().err == (
        "error: unexpected RuntimeError: no\nnext: set TRIGGERCTL_DEBUG=1 to see the traceback\n"
    )
    monkeypatch.setenv("TRIGGERCTL_DEBUG", "1")
    with pytest.raises(RuntimeError, match="way"):
        report_error(error)

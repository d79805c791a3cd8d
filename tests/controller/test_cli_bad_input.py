"""Bad input by command: an exit status of its own, the message on standard error alone, no traceback."""

import json
from typing import Any

import pytest
from sqlalchemy import select, text

from revisions.store import schema, tables
from revisions.store.database import Database
from tests.controller.conftest import ON_SQLITE, Cli, Said, Write
from tests.world import task_document, trigger_document

T = "acme/production/report/tick"


def failed(said: Said, status: int, *words: str) -> None:
    assert (said.status, said.out) == (status, ""), said.err
    assert "Traceback" not in said.err
    for word in words:
        assert word in said.err


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


@pytest.mark.parametrize(("document", "status", "words"), WRONG.values(), ids=WRONG)
def test_a_wrong_file(
    cli: Cli, write: Write, database: Database, deployed: None, document: Any, status: int, words: tuple[str, ...]
) -> None:
    """R-01, R-14, R-18, S-02, U-01: the fault by its path in the file, and the history as it was."""

    def contents() -> list[Any]:
        with database.read() as connection:
            return [connection.execute(select(table)).all() for table in (tables.trigger_revisions, tables.triggers)]

    before = contents()
    failed(cli("deploy", write("wrong.yaml", document), "--expected-revision", "1"), status, "wrong.yaml", *words)
    if document != WRONG["task version"][0]:  # a preview needs no task
        failed(cli("next", "--file", "wrong.yaml"), status, "wrong.yaml", *words)
    assert contents() == before


def test_a_file_that_is_not_there(cli: Cli, write: Write, deployed: None) -> None:
    """U-01: the file's name and the system's reason."""
    failed(cli("deploy", "none.yaml"), 5, "none.yaml", "No such file")
    failed(cli("deploy", "."), 5, "directory")
    failed(cli("task", "register", "none.yaml"), 5, "none.yaml")


def test_a_file_for_another_command(cli: Cli, write: Write, deployed: None) -> None:
    """U-01: the message names the command that takes it."""
    failed(cli("deploy", "task.yaml"), 5, "triggerctl task register")
    failed(cli("task", "register", "trigger.yaml"), 5, "triggerctl deploy")
    both = write("both.yaml", task_document("v2"), trigger_document())
    failed(cli("task", "register", both), 5, "Trigger")
    failed(cli("deploy", both), 5, "Task, Trigger")
    failed(cli("deploy", write("two.yaml", trigger_document("a"), trigger_document("b"))), 5, "Trigger, Trigger")
    assert len(json.loads(cli("--output", "json", "task", "list").out)["items"]) == 1


def test_several_faults_are_listed(cli: Cli, write: Write, deployed: None) -> None:
    """U-01: each on a line of its own, then what to do next."""
    said = cli("deploy", write("wrong.yaml", trigger_document(taks="x", catchup={"polcy": "all"})))
    failed(said, 5, "2 things are wrong", "wrong.yaml: spec.taks", "wrong.yaml: spec.catchup.polcy", "next: ")


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
def test_a_wrong_word(cli: Cli, deployed: None, arguments: list[str], status: int, words: list[str]) -> None:
    """U-01: not found is 3, invalid 5, each with its reason."""
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
def test_wrong_usage(cli: Cli, arguments: list[str]) -> None:
    """U-01: usage errors are 2, on standard error."""
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
def test_a_database_that_cannot_be_used(cli: Cli, command: list[str], url: str, status: int) -> None:
    """O-05, U-01: not there is 7, no database at all 5; a password is never shown."""
    failed(cli(*command, database=url), status, "next:")


@ON_SQLITE
def test_a_password_is_not_shown(cli: Cli) -> None:
    """X-12: the address in a message has no password."""
    said = cli("list", database="postgresql://nobody:sesame@127.0.0.1:1/nothing")
    failed(said, 7)
    assert "sesame" not in said.err


@pytest.mark.parametrize("version", ["0000", "9999", None])
def test_a_database_of_another_schema(cli: Cli, database: Database, version: str | None) -> None:
    """R-19: exit 7, and what to do."""
    if version is None:
        schema.downgrade(database, "base")
    else:
        with database.write() as connection:
            connection.execute(text(f"UPDATE alembic_version SET version_num = '{version}'"))
            connection.execute(text(f"UPDATE schema_support SET readable_since = '{version}'"))
    failed(cli("list"), 7, "use a release" if version == "9999" else "triggerctl db upgrade")


@ON_SQLITE
def test_a_server_that_is_not_there(cli: Cli) -> None:
    """U-01: exit 7 and its address; what is no address is invalid."""
    failed(cli("--server", "http://127.0.0.1:9", "list", database=None), 7, "http://127.0.0.1:9", "cannot be reached")
    failed(cli("--server", "localhost:8080", "list", database=None), 5, "http://host:8080")
    failed(cli("--server", "http://127.0.0.1:9", "--actor", "x", "list", database=None), 2)


@ON_SQLITE
def test_wrong_settings(cli: Cli, write: Write) -> None:
    """U-01: a wrong settings file stops every command that uses it, by name."""
    write("triggerctl.yaml", {"resync_intervall": "5s"})
    failed(cli("list"), 5, "resync_intervall", "did you mean resync_interval?")


def test_a_bug_is_one_line(cli: Cli, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """U-01: what nobody expected is one line and exit 1, and in full under TRIGGERCTL_DEBUG."""

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no\nway")

    monkeypatch.setattr("revisions.store.triggers.page", broken)
    said = cli("list")
    failed(said, 1, "unexpected RuntimeError: no\n", "TRIGGERCTL_DEBUG")
    monkeypatch.setenv("TRIGGERCTL_DEBUG", "1")
    from controller.cli.main import main

    with pytest.raises(RuntimeError, match="way"):
        main(["--database-url", database_url, "list"])

"""Commands that deploy, list and show triggers."""

import json
from typing import Any

import pytest
import ruamel.yaml

from tests.controller.conftest import ON_SQLITE, Cli, Write
from tests.world import task_document, trigger_document

pytestmark = ON_SQLITE  # test_api_*.py test the same requests on PostgreSQL too

T = "acme/production/report/tick"


@pytest.fixture(autouse=True)
def _registered(cli: Cli, write: Write) -> None:
    assert cli("task", "register", write("task.yaml", task_document())).status == 0


def deploy(cli: Cli, write: Write, *options: str, **spec: Any) -> dict[str, Any]:
    result = cli("--output", "json", "deploy", write("trigger.yaml", trigger_document(**spec)), *options)
    assert result.status == 0, result.err
    shown: dict[str, Any] = json.loads(result.out)
    return shown


def test_show_list_and_history_have_what_deploy_made(cli: Cli, write: Write) -> None:
    """R-03, R-06, U-01: in the API's shapes."""
    deployed = deploy(cli, write)
    assert (deployed["revision"], deployed["changed"]) == (1, True)
    assert deploy(cli, write, "--expected-revision", "1")["changed"] is False
    assert deploy(cli, write, "--expected-revision", "1", description="new")["revision"] == 2
    shown = json.loads(cli("--output", "json", "show", T).out)
    assert shown["spec"]["description"] == "new"
    assert json.loads(cli("list", "--output", "json").out) == {"items": [shown], "next_cursor": None}
    history = json.loads(cli("--output=json", "history", T).out)
    assert [item["revision"] for item in history["items"]] == [2, 1]
    assert json.loads(cli("--output", "json", "show", T, "--revision", "1").out) == history["items"][1]


def test_yaml_output_equals_json_output(cli: Cli, write: Write) -> None:
    """U-01: times stay strings."""
    deploy(cli, write)
    shown = ruamel.yaml.YAML(typ="safe").load(cli("--output", "yaml", "show", T).out)
    assert shown == json.loads(cli("--output", "json", "show", T).out)
    assert shown["changed_at"] == "2026-03-02T08:00:00Z"


def test_the_actor_is_the_option_or_the_system_user(cli: Cli, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-03: the product's own name is refused."""
    monkeypatch.setenv("LOGNAME", "ada")
    assert deploy(cli, write)["changed_by"] == "ada"
    assert deploy(cli, write, "--expected-revision", "1", "--actor", "ci", description="x")["changed_by"] == "ci"
    for name in ("system", "", " ", "a\nb"):
        assert cli("--actor", name, "delete", T).status == 5


def test_deploy_without_an_expected_revision_only_creates(cli: Cli, write: Write) -> None:
    """R-04: `deploy` never reads the revision itself; the conflict names it and the next step."""
    deploy(cli, write)
    result = cli("--actor", "bob", "deploy", "trigger.yaml")
    assert (result.status, result.out) == (4, "")
    assert "exists already, at revision 1" in result.err
    assert "at 2026-03-02T08:00:00Z" in result.err
    assert "next:" in result.err
    assert "--expected-revision 1" in result.err
    stale = cli("deploy", "trigger.yaml", "--expected-revision", "7")
    assert (stale.status, stale.out) == (4, "")


def test_activate_deactivate_and_delete_read_and_print_the_revision(cli: Cli, write: Write) -> None:
    """R-08, R-20: if it is given, it must be the current one."""
    deploy(cli, write)
    paused = cli("--output", "json", "deactivate", T, "--reason", "quiet", "--until", "2026-03-03T08:00:00Z")
    assert paused.err == "expected revision 1, read now\n"
    assert json.loads(paused.out)["status"]["paused_until"] == "2026-03-03T08:00:00Z"
    assert cli("activate", T, "--expected-revision", "1").status == 4
    resumed = cli("--output", "json", "activate", T, "--expected-revision", "2")
    assert (resumed.err, json.loads(resumed.out)["revision"]) == ("", 3)
    deleted = cli("--output", "json", "delete", T, "--reason", "done")
    assert json.loads(deleted.out)["deleted"] is True
    assert cli("delete", T).status == 3
    assert cli("activate", T).status == 3
    assert cli("list").out.splitlines()[1:] == []


def test_a_deploy_is_repeated_safely_with_an_idempotency_key(cli: Cli, write: Write) -> None:
    """R-04: the same content returns the first answer, other content is a conflict."""
    first = deploy(cli, write, "--idempotency-key", "k")
    assert deploy(cli, write, "--idempotency-key", "k") == first
    assert cli("deploy", write("b.yaml", trigger_document(description="b")), "--idempotency-key", "k").status == 4


def test_next_shows_fires_and_skipped_times(cli: Cli, write: Write) -> None:
    """S-09: of a deployed trigger or of a file, in local time and UTC."""
    nightly = {"cron": "30 2 * * *", "timezone": "Europe/Berlin"}
    file = write("nightly.yaml", trigger_document(schedule=nightly))
    of_file = cli("--output", "json", "next", "--file", file, "-n", "2", "--after", "2026-03-28T00:00:00Z")
    ahead = json.loads(of_file.out)
    assert [fire["utc"] for fire in ahead["fires"]] == ["2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z"]
    assert ahead["skipped"] == [{"local": "2026-03-29T02:30:00", "reason": "gap"}]
    assert json.loads(cli("list", "--output", "json").out)["items"] == []
    cli("deploy", file)
    of_trigger = cli("--output", "json", "next", T, "-n", "2", "--after", "2026-03-28T00:00:00Z")
    assert json.loads(of_trigger.out) == ahead
    table = cli("next", T, "-n", "1", "--after", "2026-03-28T12:00:00Z").out
    assert "2026-03-30T02:30:00+02:00" in table
    assert "left out: 2026-03-29T02:30:00 (gap)" in table


def test_a_list_that_a_limit_cuts_off_names_the_cursor(cli: Cli, write: Write) -> None:
    """L-03, U-01: without a limit the list is whole."""
    for name in ("a", "b", "c"):
        deploy(cli, write, name=name)
    names = [item["name"] for item in json.loads(cli("--output", "json", "list").out)["items"]]
    assert names == ["a", "b", "c"]
    cut = cli("list", "--limit", "1")
    assert len(cut.out.splitlines()) == 2
    cursor = cut.err.split("--cursor ")[1].split(",")[0]
    rest = json.loads(cli("--output", "json", "list", "--cursor", cursor).out)
    assert [item["name"] for item in rest["items"]] == ["b", "c"]
    assert len(json.loads(cli("--output", "json", "list", "--active").out)["items"]) == 3
    assert json.loads(cli("--output", "json", "list", "--inactive").out)["items"] == []


def test_a_table_in_a_pipe_is_neither_cut_nor_folded(cli: Cli, write: Write) -> None:
    """U-01: one line per row, with control characters escaped."""
    cli("deploy", write("long.yaml", trigger_document(name="x" * 63)))
    cli("deactivate", f"acme/production/report/{'x' * 63}", "--reason", "long " * 60 + "\x1b[2J")
    lines = cli("history", f"acme/production/report/{'x' * 63}").out.splitlines()
    assert len(lines) == 3
    assert "long " * 59 in lines[1]
    assert "\\x1b[2J" in lines[1]
    assert "x" * 63 in cli("list").out


def test_a_manifest_can_come_from_standard_input(cli: Cli) -> None:
    """U-01: `-` is standard input."""
    assert cli("deploy", "-", stdin=json.dumps(trigger_document())).status == 0
    assert json.loads(cli("--output", "json", "show", T).out)["revision"] == 1

"""Commands that verify, sign, rebuild and move histories."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from revisions.store.database import Database
from tests import tampering
from tests.controller.conftest import ON_SQLITE, Cli, Write
from tests.world import task_document, trigger_document

pytestmark = ON_SQLITE  # test_api_*.py test the same requests on PostgreSQL too

T = "acme/production/report/tick"


@pytest.fixture(autouse=True)
def _lived(cli: Cli, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KEY_FILE", "PUBLIC_KEY"):
        monkeypatch.delenv(f"TRIGGERCTL_CHECKPOINT_{name}", raising=False)
    cli("task", "register", write("task.yaml", task_document()))
    cli("deploy", write("trigger.yaml", trigger_document()))
    assert cli("deactivate", T, "--reason", "quiet").status == 0


@pytest.fixture
def key(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> str:
    """Public part of the configured key that signs checkpoints."""
    monkeypatch.setenv("TRIGGERCTL_CHECKPOINT_KEY_FILE", "key")
    result = cli("--output", "json", "checkpoint", "--new-key", "key")
    assert result.status == 0, result.err
    public: str = json.loads(result.out)["public_key"]
    return public


def test_verify_names_the_first_wrong_revision(cli: Cli, database: Database) -> None:
    """R-10: exit status 0 if all is sound, otherwise 1."""
    result = cli("verify")
    assert (result.status, result.out, result.err) == (0, "2 revisions of 1 trigger: sound\n", "")
    assert json.loads(cli("--output", "json", "verify", T).out)["sound"] is True
    tampering.edit(database, 2, actor="mallory")
    for arguments in (("verify",), ("verify", T)):
        result = cli(*arguments)
        assert result.status == 1
        assert f"{T}, revision 2: its content is not what was hashed" in result.out
        assert "next: find out who changed it" in result.err
    result = cli("--output", "json", "verify")
    assert result.status == 1
    assert json.loads(result.out)["breaks"][0]["revision"] == 2
    assert cli("verify", "acme/production/report/none").status == 3
    assert cli("verify", "none").status == 5


def test_checkpoint_without_a_key_names_the_command_that_makes_one(cli: Cli) -> None:
    """R-10: exit status 5."""
    result = cli("checkpoint")
    assert (result.status, result.out) == (5, "")
    assert "triggerctl checkpoint --new-key FILE" in result.err


def test_a_new_key_is_readable_by_its_owner_only(cli: Cli, key: str, tmp_path: Path) -> None:
    """R-10: it is never shown, and no key is overwritten."""
    path = tmp_path / "key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert key.startswith("ed25519:")
    before = path.read_text()
    result = cli("checkpoint", "--new-key", "key")
    assert result.status == 5
    assert path.read_text() == before
    assert before.strip() not in result.out + result.err


def test_verify_with_a_checkpoint_finds_a_rewritten_history(
    cli: Cli, key: str, database: Database, tmp_path: Path
) -> None:
    """R-10: whose chain is sound in itself."""
    result = cli("checkpoint", "-o", "head.json")
    assert result.status == 0, result.err
    assert json.loads(cli("checkpoint").out)["heads"] == json.loads((tmp_path / "head.json").read_text())["heads"]
    assert cli("verify", "--checkpoint", "head.json").status == 0
    tampering.make_again(database, actor="mallory")
    assert cli("verify").status == 0
    result = cli("verify", "--checkpoint", "head.json")
    assert result.status == 1
    assert f"{T}, revision 2: is not what the checkpoint signed" in result.out
    assert cli("verify", T, "--checkpoint", "head.json").status == 1


def test_verify_checks_whose_key_signed_the_checkpoint(cli: Cli, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-10: another key is refused; without an expected key the answer says so."""
    cli("checkpoint", "-o", "head.json")
    monkeypatch.delenv("TRIGGERCTL_CHECKPOINT_KEY_FILE")
    result = cli("verify", "--checkpoint", "head.json")
    assert result.status == 0
    assert "--public-key" in result.err
    result = cli("verify", "--checkpoint", "head.json", "--public-key", key)
    assert (result.status, result.err) == (0, "")
    other = json.loads(cli("--output", "json", "checkpoint", "--new-key", "other").out)["public_key"]
    result = cli("verify", "--checkpoint", "head.json", "--public-key", other)
    assert result.status == 5
    assert "was expected" in result.err
    assert "takes the old --public-key" in result.err
    monkeypatch.setenv("TRIGGERCTL_CHECKPOINT_PUBLIC_KEY", other)
    assert cli("verify", "--checkpoint", "head.json").status == 5
    assert cli("verify", "--checkpoint", "none.json").status == 5


def test_rebuild_shows_differences_and_repairs_them(cli: Cli, database: Database) -> None:
    """R-11: with --apply; afterwards nothing differs."""
    tampering.execute(database, "UPDATE tasks SET total_triggers = 7")
    result = cli("rebuild")
    assert result.status == 0
    assert "acme/production/report@v1  total_triggers  1                 7" in result.out
    assert "--apply" in result.err
    assert json.loads(cli("--output", "json", "task", "show", "acme/production/report@v1").out)["total_triggers"] == 7
    assert cli("rebuild", "--apply").status == 0
    result = cli("rebuild")
    assert result.out == ""
    assert "nothing differs" in result.err


def test_rebuild_leaves_out_a_broken_chain(cli: Cli, database: Database) -> None:
    """R-11, R-10: exit status 1 without --apply, 4 with it."""
    tampering.edit(database, 1, reason="x")
    result = cli("rebuild")
    assert result.status == 1
    assert "1 trigger left out, for the chain is broken" in result.err
    assert "next: restore the history" in result.err
    result = cli("rebuild", "--apply")
    assert result.status == 4
    assert result.err.startswith("error: nothing was rebuilt: ")


@pytest.mark.parametrize(
    ("broken", "way"),
    [
        ("UPDATE triggers SET active = true", "`triggerctl rebuild`"),
        ("UPDATE triggers SET revision = 3", "restore the history"),
    ],
)
def test_verify_tells_what_to_do_about_a_current_row(cli: Cli, database: Database, broken: str, way: str) -> None:
    """R-10, U-01: a row that differs is rebuilt; one beyond its history means that revisions are gone."""
    tampering.execute(database, broken)
    result = cli("verify")
    assert result.status == 1
    assert way in result.err
    assert "True" not in result.out + result.err


@pytest.mark.parametrize("command", ["checkpoint", "export"])
def test_checkpoint_and_export_refuse_a_broken_history(
    cli: Cli, key: str, database: Database, tmp_path: Path, command: str
) -> None:
    """R-10: with the first break and without a file, unless --unverified is given."""
    tampering.edit(database, 2, actor="mallory")
    result = cli(command, "-o", "file")
    assert (result.status, result.out) == (4, "")
    assert f"{T}, revision 2: its content is not what was hashed" in result.err
    assert "next: `triggerctl verify`" in result.err
    assert not (tmp_path / "file").exists()
    result = cli(command, "-o", "file", "--unverified")
    assert result.status == 0, result.err
    assert (tmp_path / "file").exists()


def test_an_unverified_export_is_not_signed(cli: Cli, key: str, tmp_path: Path) -> None:
    """R-10: the signature says that the chains are sound."""
    for arguments, is_signed in (((), True), (("--unverified",), False)):
        assert cli("export", "-o", "all.ndjson", *arguments).status == 0
        first = json.loads((tmp_path / "all.ndjson").read_text().splitlines()[0])
        assert ("signature" in first) is is_signed


def test_export_and_import_move_a_history(cli: Cli, key: str, tmp_path: Path) -> None:
    """R-10: nothing is lost, and an interrupted export leaves no file."""
    assert cli("export", "-o", "all.ndjson").status == 0
    other = f"sqlite:///{tmp_path}/other.db"
    assert cli("db", "upgrade", database=other).status == 0
    result = cli("--output", "json", "import", "all.ndjson", database=other)
    assert result.status == 0, result.err
    assert json.loads(result.out)["trigger_revisions"] == 2
    history: dict[str, Any] = {}
    for database in (None, other):
        arguments = {} if database is None else {"database": database}
        history[str(database)] = json.loads(cli("--output", "json", "history", T, **arguments).out)
    assert history["None"] == history[other]
    assert cli("import", "all.ndjson", database=other).status == 4
    assert cli("import", "none.ndjson").status == 5
    assert cli("export", "-o", "none/all.ndjson").status == 5
    assert cli("import", "trigger.yaml", database=other).status == 5
    assert [path.name for path in tmp_path.glob(".*.part")] == []

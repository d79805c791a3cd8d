"""Histories verified, signed, rebuilt and moved by command."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from revisions.store.database import Database
from tests import tampering
from tests.controller.conftest import Cli, Write
from tests.world import task_document, trigger_document

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
    """A key that signs checkpoints is configured; its public part."""
    monkeypatch.setenv("TRIGGERCTL_CHECKPOINT_KEY_FILE", "key")
    said = cli("--output", "json", "checkpoint", "--new-key", "key")
    assert said.status == 0, said.err
    public: str = json.loads(said.out)["public_key"]
    return public


def test_verifying(cli: Cli, database: Database) -> None:
    """R-10: status 0 and a line when all is sound; status 1, naming trigger, revision and what differs, when not."""
    said = cli("verify")
    assert (said.status, said.out, said.err) == (0, "2 revisions of 1 trigger: sound\n", "")
    assert json.loads(cli("--output", "json", "verify", T).out)["sound"] is True
    tampering.edit(database, 2, actor="mallory")
    for arguments in (("verify",), ("verify", T)):
        said = cli(*arguments)
        assert said.status == 1
        assert f"{T}, revision 2: its content is not what was hashed" in said.out
        assert "next: find out who changed it" in said.err
    said = cli("--output", "json", "verify")
    assert said.status == 1
    assert json.loads(said.out)["breaks"][0]["revision"] == 2
    assert cli("verify", "acme/production/report/none").status == 3
    assert cli("verify", "none").status == 5


def test_without_a_key_nothing_is_signed(cli: Cli) -> None:
    """R-10: the command that makes a key is named."""
    said = cli("checkpoint")
    assert (said.status, said.out) == (5, "")
    assert "triggerctl checkpoint --new-key FILE" in said.err


def test_a_new_key_is_private(cli: Cli, key: str, tmp_path: Path) -> None:
    """R-10: only its owner can read it, it is shown nowhere, and none is written over."""
    path = tmp_path / "key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert key.startswith("ed25519:")
    before = path.read_text()
    said = cli("checkpoint", "--new-key", "key")
    assert said.status == 5
    assert path.read_text() == before
    assert before.strip() not in said.out + said.err


def test_a_checkpoint_finds_what_chains_cannot(cli: Cli, key: str, database: Database, tmp_path: Path) -> None:
    """R-10: a history made again is sound in itself, and is not what was signed."""
    said = cli("checkpoint", "-o", "head.json")
    assert said.status == 0, said.err
    assert json.loads(cli("checkpoint").out)["heads"] == json.loads((tmp_path / "head.json").read_text())["heads"]
    assert cli("verify", "--checkpoint", "head.json").status == 0
    tampering.make_again(database, actor="mallory")
    assert cli("verify").status == 0
    said = cli("verify", "--checkpoint", "head.json")
    assert said.status == 1
    assert f"{T}, revision 2: is not what the checkpoint signed" in said.out
    assert cli("verify", T, "--checkpoint", "head.json").status == 1


def test_whose_checkpoint_it_is(cli: Cli, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-10: another's is refused where a key is expected; where none is, the answer says so."""
    cli("checkpoint", "-o", "head.json")
    monkeypatch.delenv("TRIGGERCTL_CHECKPOINT_KEY_FILE")
    said = cli("verify", "--checkpoint", "head.json")
    assert said.status == 0
    assert "--public-key" in said.err
    said = cli("verify", "--checkpoint", "head.json", "--public-key", key)
    assert (said.status, said.err) == (0, "")
    other = json.loads(cli("--output", "json", "checkpoint", "--new-key", "other").out)["public_key"]
    said = cli("verify", "--checkpoint", "head.json", "--public-key", other)
    assert said.status == 5
    assert "was expected" in said.err
    assert "takes the old --public-key" in said.err
    monkeypatch.setenv("TRIGGERCTL_CHECKPOINT_PUBLIC_KEY", other)
    assert cli("verify", "--checkpoint", "head.json").status == 5
    assert cli("verify", "--checkpoint", "none.json").status == 5


def test_rebuilding(cli: Cli, database: Database) -> None:
    """R-11: what differs is shown and, with --apply, mended; then nothing differs."""
    tampering.execute(database, "UPDATE tasks SET total_triggers = 7")
    said = cli("rebuild")
    assert said.status == 0
    assert "acme/production/report@v1  total_triggers  1                 7" in said.out
    assert "--apply" in said.err
    assert json.loads(cli("--output", "json", "task", "show", "acme/production/report@v1").out)["total_triggers"] == 7
    assert cli("rebuild", "--apply").status == 0
    said = cli("rebuild")
    assert said.out == ""
    assert "nothing differs" in said.err


def test_a_broken_chain_is_not_rebuilt(cli: Cli, database: Database) -> None:
    """R-11, R-10: status 1 where it is only compared, for what is left out is not known to be right; 4 with --apply."""
    tampering.edit(database, 1, reason="x")
    said = cli("rebuild")
    assert said.status == 1
    assert "1 trigger left out, for the chain is broken" in said.err
    assert "next: put the history back" in said.err
    said = cli("rebuild", "--apply")
    assert said.status == 4
    assert said.err.startswith("error: nothing was rebuilt: ")


@pytest.mark.parametrize(
    ("broken", "way"),
    [
        ("UPDATE triggers SET active = true", "`triggerctl rebuild`"),
        ("UPDATE triggers SET revision = 3", "put the history back"),
    ],
)
def test_what_to_do_about_a_current_row(cli: Cli, database: Database, broken: str, way: str) -> None:
    """R-10, U-01: a row that differs is made again; one beyond its history tells of revisions that are gone."""
    tampering.execute(database, broken)
    said = cli("verify")
    assert said.status == 1
    assert way in said.err
    assert "True" not in said.out + said.err


@pytest.mark.parametrize("command", ["checkpoint", "export"])
def test_a_broken_history_is_not_signed_for_or_handed_on(
    cli: Cli, key: str, database: Database, tmp_path: Path, command: str
) -> None:
    """R-10: refused with the first break, and no file is left; `--unverified` takes it all the same."""
    tampering.edit(database, 2, actor="mallory")
    said = cli(command, "-o", "file")
    assert (said.status, said.out) == (4, "")
    assert f"{T}, revision 2: its content is not what was hashed" in said.err
    assert "next: `triggerctl verify`" in said.err
    assert not (tmp_path / "file").exists()
    said = cli(command, "-o", "file", "--unverified")
    assert said.status == 0, said.err
    assert (tmp_path / "file").exists()


def test_nothing_is_signed_in_an_export_that_was_not_verified(cli: Cli, key: str, tmp_path: Path) -> None:
    """R-10: the signature says that the chains held."""
    for arguments, is_signed in (((), True), (("--unverified",), False)):
        assert cli("export", "-o", "all.ndjson", *arguments).status == 0
        first = json.loads((tmp_path / "all.ndjson").read_text().splitlines()[0])
        assert ("signature" in first) is is_signed


def test_moving(cli: Cli, key: str, tmp_path: Path) -> None:
    """R-10: to another database by file, with nothing lost; an export that broke off is no file."""
    assert cli("export", "-o", "all.ndjson").status == 0
    other = f"sqlite:///{tmp_path}/other.db"
    assert cli("db", "upgrade", database=other).status == 0
    said = cli("--output", "json", "import", "all.ndjson", database=other)
    assert said.status == 0, said.err
    assert json.loads(said.out)["trigger_revisions"] == 2
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

"""Commands for histories that can be trusted: verify, sign, rebuild, move."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from controller.cli import session as sessions
from controller.cli.session import Output, Session

if TYPE_CHECKING:
    from controller.cli.client import Client
    from controller.cli.long import Told

app = typer.Typer()

_PART = 256 * 1024

PublicKey = Annotated[
    str | None,
    typer.Option(envvar="TRIGGERCTL_CHECKPOINT_PUBLIC_KEY", help="The key that must have signed: ed25519:…"),
]


@app.command()
def verify(
    context: typer.Context,
    trigger: Annotated[
        str | None, typer.Argument(metavar="[T]", help="project/domain/task/name; left out, all.")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A checkpoint, which also finds what is cut off or made again.")
    ] = None,
    public_key: PublicKey = None,
) -> None:
    """Walk the hash chains and name what is broken; exit status 1 when something is."""
    from controller.cli import files, long

    session = sessions.of(context)
    if trigger is not None:
        files.trigger_path(trigger)
    with session.client() as client:
        if checkpoint is None:
            answer = long.ask(client, "GET", "/verify", trigger=trigger)
        else:
            sent = _read(checkpoint)
            answer = long.ask(client, "POST", "/verify", sent, trigger=trigger, public_key=public_key)
    _report(session, answer)
    if not answer["sound"]:
        raise typer.Exit(1)


@app.command()
def rebuild(
    context: typer.Context,
    apply: Annotated[bool, typer.Option("--apply", help="Make it so, in one transaction.")] = False,
) -> None:
    """Show what replaying all revisions would change in the current tables, or make it so."""
    from controller.cli import long, screen

    session = sessions.of(context)
    with session.client() as client:
        answer = long.ask(client, "POST" if apply else "GET", "/rebuild")
    if session.output is not Output.table:
        screen.document(session, answer)
        return
    if answer["differences"]:
        columns = {"TABLE": "table", "ROW": "name", "FIELD": "field", "BY THE REVISIONS": "expected", "FOUND": "found"}
        screen.rows(session, {"items": answer["differences"]}, columns)
    for found in answer["breaks"]:
        screen.note(_sentence(found))
    number = len(answer["differences"])
    what = "nothing differs" if not number else f"{number} {'mended' if apply else 'to be mended: --apply makes it so'}"
    screen.note(f"{answer['revisions']} revisions of {answer['triggers']} triggers replayed, {what}")


@app.command()
def checkpoint(
    context: typer.Context,
    output: Annotated[Path | None, typer.Option("-o", metavar="FILE", help="Where to write it.")] = None,
    new_key: Annotated[
        Path | None, typer.Option("--new-key", metavar="FILE", help="Make a key that signs checkpoints, and end.")
    ] = None,
) -> None:
    """Sign the newest revision of every trigger, to be kept elsewhere; `verify` before."""
    from controller.cli import screen

    session = sessions.of(context)
    if new_key is not None:
        _make_key(session, new_key)
        return
    with session.client() as client:
        answer = client.get("/checkpoint")
    if output is None:
        screen.document(session, answer)
        return
    with _written(output) as file:
        file.write(json.dumps(answer, indent=1, ensure_ascii=False).encode() + b"\n")
    screen.facts(
        session, {"file": str(output), **answer["checkpoint"], "public_key": answer["signature"]["public_key"]}
    )


@app.command()
def export(
    context: typer.Context,
    output: Annotated[Path | None, typer.Option("-o", metavar="FILE", help="Left out, standard output.")] = None,
) -> None:
    """Write everything that is true as lines, for `import` into another database, SQLite or PostgreSQL."""
    from controller.cli import long

    session = sessions.of(context)
    with session.client() as client, long.shown("export …") as tell:
        if output is None:
            _stream(client, sys.stdout.buffer, tell)
        else:
            with _written(output) as file:
                _stream(client, file, tell)


@app.command("import")
def load(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `export` wrote.")],
    public_key: PublicKey = None,
) -> None:
    """Take an export into a database that holds nothing yet; all of it or nothing, its chains verified."""
    from controller.cli import long, screen

    session = sessions.of(context)
    _read(file, 0)
    with session.client() as client:
        answer = long.ask(client, "POST", "/import", _parts(file), public_key=public_key)
    screen.facts(session, {**answer["counts"], **{k: v for k, v in answer.items() if k != "counts"}})


def _report(session: Session, answer: dict[str, Any]) -> None:
    from controller.cli import screen

    if session.output is not Output.table:
        screen.document(session, answer)
        return
    for found in answer["breaks"]:
        screen.write(screen.printable(_sentence(found)) + "\n")
    if answer["broken"] > len(answer["breaks"]):
        screen.write(f"… and {answer['broken'] - len(answer['breaks'])} more triggers\n")
    for guard in answer["guards_missing"]:
        screen.write(f"the database is without its guard {guard}\n")
    what = "sound" if answer["sound"] else f"{answer['broken']} broken" if answer["broken"] else "sound, but unguarded"
    screen.write(f"{answer['revisions']} revisions of {answer['triggers']} triggers: {what}\n")
    if (against := answer["checkpoint"]) is not None:
        screen.write(f"against {against['triggers']} heads of {against['created_at']}, by {against['public_key']}\n")
        if not against["pinned"]:
            screen.note("only the checkpoint itself says whose key that is: pass --public-key to be sure")


def _sentence(found: dict[str, Any]) -> str:
    differs = f" (expected {found['expected']}, found {found['found']})" if found["expected"] != found["found"] else ""
    return f"{found['trigger']}, revision {found['revision']}: {found['message']}{differs}"


def _make_key(session: Session, path: Path) -> None:
    from controller.cli import screen
    from revisions.errors import Invalid
    from revisions.signing import PrivateKey

    key = PrivateKey.fresh()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        hint = "name a file that is not there yet, in a folder that is"
        raise Invalid.at("new-key", f"{path} cannot be made: {error.strerror}", hint) from None
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{key.text}\n")
    screen.facts(session, {"file": str(path), "public_key": str(key.public)})
    screen.note(f"next: set TRIGGERCTL_CHECKPOINT_KEY_FILE={path}, and keep the public key where you verify")


def _stream(client: "Client", file: BinaryIO, tell: "Told") -> None:
    """Raises Unavailable for an export that ends without its last line."""
    from revisions.errors import Unavailable

    tail, lines = b"", 0
    with client.streamed("GET", "/export", is_patient=True) as answer:
        for part in answer.iter_bytes():
            file.write(part)
            tail = (tail + part)[-_PART:]
            lines += part.count(b"\n")
            tell(lines, None)
    if not tail.rstrip(b"\n").rpartition(b"\n")[2].startswith(b'{"counts"'):
        raise Unavailable("the export broke off before its end")
    file.flush()


@contextmanager
def _written(path: Path) -> Iterator[BinaryIO]:
    """A file that is there once it is whole, and not before. Raises Invalid when it cannot be written."""
    from revisions.errors import Invalid

    partial = path.with_name(f".{path.name}.part")
    try:
        with partial.open("wb") as file:
            yield file
        partial.replace(path)
    except OSError as error:
        raise Invalid.at("o", f"{path} cannot be written: {error.strerror}", "name a file that can") from None
    finally:
        partial.unlink(missing_ok=True)


def _read(path: Path, length: int = -1) -> bytes:
    """Its first bytes, or all. Raises Invalid when it cannot be read."""
    from revisions.errors import Invalid

    try:
        with path.open("rb") as file:
            return file.read(length)
    except OSError as error:
        raise Invalid.at(str(path), f"cannot be read: {error.strerror}", "name a file that can") from None


def _parts(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while part := file.read(_PART):
            yield part

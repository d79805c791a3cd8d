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
    trigger: Annotated[str | None, typer.Argument(metavar="T", help="project/domain/task/name; left out, all.")] = None,
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
    _compared(session, answer, applied=apply)
    if answer["breaks"]:
        screen.note("next: put the history back from a backup or an export; `triggerctl verify` shows more")
        raise typer.Exit(1)


def _compared(session: Session, answer: dict[str, Any], *, applied: bool) -> None:
    from controller.cli import screen

    if session.output is not Output.table:
        screen.document(session, answer)
        return
    if answer["differences"]:
        columns = {"TABLE": "table", "ROW": "name", "FIELD": "field", "BY THE REVISIONS": "expected", "FOUND": "found"}
        screen.rows(session, {"items": answer["differences"]}, columns)
    for found in answer["breaks"]:
        screen.note(_sentence(found))
    number, broken = len(answer["differences"]), len(answer["breaks"])
    done = "mended" if applied else "to be mended: --apply makes it so"
    what = f"{number} {done}" if number else "nothing differs"
    left = f"; {screen.many(broken, 'trigger')} left out, for the chain is broken" if broken else ""
    screen.note(f"{_walked(answer)} replayed, {what}{left}")


@app.command()
def checkpoint(
    context: typer.Context,
    output: Annotated[Path | None, typer.Option("-o", metavar="FILE", help="Where to write it.")] = None,
    new_key: Annotated[
        Path | None, typer.Option("--new-key", metavar="FILE", help="Make a key that signs checkpoints, and end.")
    ] = None,
    unverified: Annotated[
        bool, typer.Option("--unverified", help="Sign also where a chain is broken; refused otherwise.")
    ] = False,
) -> None:
    """Sign the newest revision of every trigger, to be kept elsewhere; their chains are verified first."""
    from controller.cli import long, screen

    session = sessions.of(context)
    if new_key is not None:
        _make_key(session, new_key)
        return
    with session.client() as client:
        answer = long.ask(client, "GET", "/checkpoint", unverified=unverified or None)
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
    unverified: Annotated[
        bool, typer.Option("--unverified", help="Also where a chain is broken, then unsigned; refused otherwise.")
    ] = False,
) -> None:
    """Verify all chains, then write everything that is true as lines, for `import` into another database."""
    from controller.cli import long, screen

    session = sessions.of(context)
    with session.client() as client, long.shown("export …") as tell:
        if output is None:
            _stream(client, sys.stdout.buffer, tell, unverified=unverified)
        else:
            with _written(output) as file:
                lines = _stream(client, file, tell, unverified=unverified)
            screen.note(f"{screen.many(lines, 'line')} in {output}")


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
        screen.write(f"… and {screen.many(answer['broken'] - len(answer['breaks']), 'more trigger')}\n")
    for guard in answer["guards_missing"]:
        screen.write(f"the database is without its guard {guard}\n")
    what = "sound" if answer["sound"] else f"{answer['broken']} broken" if answer["broken"] else "sound, but unguarded"
    screen.write(f"{_walked(answer)}: {what}\n")
    if (against := answer["checkpoint"]) is not None:
        heads, at = screen.many(against["triggers"], "head"), screen.cell(against["created_at"])
        screen.write(f"against {heads} of {at}, by {against['public_key']}\n")
        if not against["pinned"]:
            screen.note("only the checkpoint itself says whose key that is: pass --public-key to be sure")

    if not answer["sound"]:
        screen.note(f"next: {_mend(answer)}")


def _mend(answer: dict[str, Any]) -> str:
    """What is to be done. Where a current row stands at another revision than the last, revisions may be gone."""
    if not answer["broken"]:
        return "find out who took the guards away; an import into a new database makes one that has them"
    if all(found["what"] == "current" and found["field"] not in (None, "revision") for found in answer["breaks"]):
        return "see `triggerctl rebuild`, which makes current rows what the revisions say"
    return "find out who changed it, and put the history back from a backup or an export"


def _walked(answer: dict[str, Any]) -> str:
    from controller.cli.screen import many

    return f"{many(answer['revisions'], 'revision')} of {many(answer['triggers'], 'trigger')}"


def _sentence(found: dict[str, Any]) -> str:
    from controller.cli.screen import cell

    expected, there = (cell(found[side]) if found[side] is not None else "nothing" for side in ("expected", "found"))
    differs = f" (expected {expected}, found {there})" if expected != there else ""
    return f"{found['trigger']}, revision {found['revision']}: {found['message']}{differs}"


def _make_key(session: Session, path: Path) -> None:
    from controller.cli import screen
    from revisions.errors import Invalid
    from revisions.history.signing import PrivateKey

    key = PrivateKey.fresh()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        hint = "name a file that is not there yet, in a folder that is"
        raise Invalid.at("--new-key", f"{path} cannot be made: {error.strerror}", hint) from None
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{key.text}\n")
    screen.facts(session, {"file": str(path), "public_key": str(key.public)})
    screen.note(f"next: set TRIGGERCTL_CHECKPOINT_KEY_FILE={path}, and keep the public key where you verify")


def _stream(client: "Client", file: BinaryIO, tell: "Told", *, unverified: bool) -> int:
    """Answers how many lines there were. Raises Unavailable for an export that ends without its last line."""
    from revisions.errors import Unavailable

    tail, lines = b"", 0
    params = {"unverified": unverified or None}
    with client.streamed("GET", "/export", params=params, is_patient=True) as answer:
        for part in answer.iter_bytes():
            file.write(part)
            tail = (tail + part)[-_PART:]
            lines += part.count(b"\n")
            tell(lines, None)
    if not tail.rstrip(b"\n").rpartition(b"\n")[2].startswith(b'{"counts"'):
        raise Unavailable("the export broke off before its end")
    file.flush()
    return lines


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
        raise Invalid.at("-o", f"{path} cannot be written: {error.strerror}", "name a file that can") from None
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

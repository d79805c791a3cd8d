"""Commands that verify, sign, rebuild and move histories."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from controller.cli import output
from controller.cli.session import OutputFormat, Session, current_session

if TYPE_CHECKING:
    from controller.cli.client import Client

app = typer.Typer()

_PART_BYTES = 256 * 1024

PublicKey = Annotated[
    str | None,
    typer.Option(envvar="TRIGGERCTL_CHECKPOINT_PUBLIC_KEY", help="Key that must have signed: ed25519:…"),
]


@app.command()
def verify(
    context: typer.Context,
    trigger: Annotated[
        str | None, typer.Argument(metavar="T", help="Trigger: project/domain/task/name; default all.")
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Compare with a checkpoint; this also finds truncated or rewritten histories."
        ),
    ] = None,
    public_key: PublicKey = None,
) -> None:
    """Verify the hash chains and report each break. Exits with 1 if there is one."""
    from controller.cli import arguments

    session = current_session(context)
    if trigger is not None:
        arguments.trigger_path(trigger)  # refuses a name that is none
    with session.client() as client:
        if checkpoint is None:
            answer = client.request_with_progress("GET", "/verify", trigger=trigger)
        else:
            signed = _read_bytes(checkpoint)
            answer = client.request_with_progress("POST", "/verify", signed, trigger=trigger, public_key=public_key)
    _print_verification(session, answer)
    if not answer["sound"]:
        raise typer.Exit(1)


@app.command()
def rebuild(
    context: typer.Context,
    apply: Annotated[bool, typer.Option("--apply", help="Repair the tables, in one transaction.")] = False,
) -> None:
    """Compare the current tables with a replay of all revisions, or repair them."""
    session = current_session(context)
    with session.client() as client:
        answer = client.request_with_progress("POST" if apply else "GET", "/rebuild")
    _print_rebuild(session, answer, is_applied=apply)
    if answer["breaks"]:
        output.write_note("next: restore the history from a backup or an export; `triggerctl verify` shows more")
        raise typer.Exit(1)


@app.command()
def checkpoint(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Option("-o", metavar="FILE", help="Output file; default standard output.")
    ] = None,
    new_key: Annotated[
        Path | None, typer.Option("--new-key", metavar="FILE", help="Create a key that signs checkpoints, and exit.")
    ] = None,
    unverified: Annotated[
        bool, typer.Option("--unverified", help="Sign without verifying, even if a chain is broken.")
    ] = False,
) -> None:
    """Verify all chains, then sign the newest revision of every trigger. Keep the result outside the database."""
    session = current_session(context)
    if new_key is not None:
        _create_key(session, new_key)
        return
    with session.client() as client:
        answer = client.request_with_progress("GET", "/checkpoint", unverified=unverified or None)
    if file is None:
        output.print_document(session, answer)
        return
    with _replacing(file) as stream:
        stream.write(json.dumps(answer, indent=1, ensure_ascii=False).encode() + b"\n")
    public_key = answer["signature"]["public_key"]
    output.print_fields(session, {"file": str(file), **answer["checkpoint"], "public_key": public_key})


@app.command()
def export(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Option("-o", metavar="FILE", help="Output file; default standard output.")
    ] = None,
    unverified: Annotated[
        bool, typer.Option("--unverified", help="Export without verifying, even if a chain is broken; unsigned.")
    ] = False,
) -> None:
    """Verify all chains, then export the database as lines of JSON, for `import` into another one."""
    session = current_session(context)
    with session.client() as client, output.progress_bar("export …") as show_progress:
        if file is None:
            _write_export(client, sys.stdout.buffer, show_progress, unverified=unverified)
        else:
            with _replacing(file) as stream:
                lines = _write_export(client, stream, show_progress, unverified=unverified)
            output.write_note(f"{output.count_of(lines, 'line')} in {file}")


@app.command("import")
def import_export(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File written by `export`.")],
    public_key: PublicKey = None,
) -> None:
    """Import an export into an empty database, all or nothing. Its chains are verified first."""
    session = current_session(context)
    _read_bytes(file, 0)  # refuses an unreadable file before the database is opened
    with session.client() as client:
        answer = client.request_with_progress("POST", "/import", _read_parts(file), public_key=public_key)
    rest = {name: value for name, value in answer.items() if name != "counts"}
    output.print_fields(session, {**answer["counts"], **rest})


def _print_verification(session: Session, answer: dict[str, Any]) -> None:
    if session.output is not OutputFormat.table:
        output.print_document(session, answer)
        return
    for item in answer["breaks"]:
        output.write(output.escape_unprintable(_break_sentence(item)) + "\n")
    if answer["broken"] > len(answer["breaks"]):
        output.write(f"… and {output.count_of(answer['broken'] - len(answer['breaks']), 'more trigger')}\n")
    for guard in answer["guards_missing"]:
        output.write(f"the database is without its guard {guard}\n")
    verdict = (
        "sound" if answer["sound"] else f"{answer['broken']} broken" if answer["broken"] else "sound, but unguarded"
    )
    output.write(f"{_extent(answer)}: {verdict}\n")
    if (checkpoint := answer["checkpoint"]) is not None:
        heads, created = output.count_of(checkpoint["triggers"], "head"), output.format_cell(checkpoint["created_at"])
        output.write(f"against {heads} of {created}, by {checkpoint['public_key']}\n")
        if not checkpoint["pinned"]:
            output.write_note("only the checkpoint itself says whose key that is: pass --public-key to be sure")
    if not answer["sound"]:
        output.write_note(f"next: {_repair_hint(answer)}")


def _repair_hint(answer: dict[str, Any]) -> str:
    """Return what to do. A current row at another revision than the last may mean that revisions are gone."""
    if not answer["broken"]:
        return "find out who removed the guards; an import into a new database creates one that has them"
    if all(item["what"] == "current" and item["field"] not in (None, "revision") for item in answer["breaks"]):
        return "see `triggerctl rebuild`, which makes current rows what the revisions say"
    return "find out who changed it, and restore the history from a backup or an export"


def _print_rebuild(session: Session, answer: dict[str, Any], *, is_applied: bool) -> None:
    if session.output is not OutputFormat.table:
        output.print_document(session, answer)
        return
    if answer["differences"]:
        columns = {"TABLE": "table", "ROW": "name", "FIELD": "field", "BY THE REVISIONS": "expected", "FOUND": "found"}
        output.print_list(session, {"items": answer["differences"]}, columns)
    for item in answer["breaks"]:
        output.write_note(_break_sentence(item))
    differing, broken = len(answer["differences"]), len(answer["breaks"])
    result = "repaired" if is_applied else "to be repaired: --apply does it"
    summary = f"{differing} {result}" if differing else "nothing differs"
    left_out = f"; {output.count_of(broken, 'trigger')} left out, for the chain is broken" if broken else ""
    output.write_note(f"{_extent(answer)} replayed, {summary}{left_out}")


def _extent(answer: dict[str, Any]) -> str:
    return f"{output.count_of(answer['revisions'], 'revision')} of {output.count_of(answer['triggers'], 'trigger')}"


def _break_sentence(item: dict[str, Any]) -> str:
    expected, found = (
        output.format_cell(item[side]) if item[side] is not None else "nothing" for side in ("expected", "found")
    )
    difference = f" (expected {expected}, found {found})" if expected != found else ""
    return f"{item['trigger']}, revision {item['revision']}: {item['message']}{difference}"


def _create_key(session: Session, path: Path) -> None:
    """Create a key file that only its owner can read. Raises Invalid if the file exists or cannot be created."""
    from revisions.errors import Invalid
    from revisions.history.checkpoints import PrivateKey

    key = PrivateKey.fresh()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        hint = "name a new file in an existing folder"
        raise Invalid.at("--new-key", f"{path} cannot be created: {error.strerror}", hint) from None
    with os.fdopen(descriptor, "w") as stream:
        stream.write(f"{key.text}\n")
    output.print_fields(session, {"file": str(path), "public_key": str(key.public)})
    output.write_note(f"next: set TRIGGERCTL_CHECKPOINT_KEY_FILE={path}, and keep the public key where you verify")


def _write_export(client: "Client", stream: BinaryIO, show_progress: output.ShowProgress, *, unverified: bool) -> int:
    """Write an export and return its number of lines. Raises Unavailable if its last line is missing."""
    from revisions.errors import Unavailable

    tail, lines = b"", 0
    params = {"unverified": unverified or None}
    with client.stream("GET", "/export", params=params, has_read_timeout=False) as response:
        for part in response.iter_bytes():
            stream.write(part)
            tail = (tail + part)[-_PART_BYTES:]
            lines += part.count(b"\n")
            show_progress(lines, None)
    if not tail.rstrip(b"\n").rpartition(b"\n")[2].startswith(b'{"counts"'):
        raise Unavailable("the export broke off before its end")
    stream.flush()
    return lines


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that appears, or replaces the old one, only once it is whole. Raises Invalid if it cannot."""
    from revisions.errors import Invalid

    partial = path.with_name(f".{path.name}.part")
    try:
        with partial.open("wb") as stream:
            yield stream
        partial.replace(path)
    except OSError as error:
        raise Invalid.at("-o", f"{path} cannot be written: {error.strerror}", "name a file that can") from None
    finally:
        partial.unlink(missing_ok=True)


def _read_bytes(path: Path, length: int = -1) -> bytes:
    """Return the first `length` bytes of a file, or all. Raises Invalid if it cannot be read."""
    from revisions.errors import Invalid

    try:
        with path.open("rb") as stream:
            return stream.read(length)
    except OSError as error:
        raise Invalid.at(str(path), f"cannot be read: {error.strerror}", "name a file that can") from None


def _read_parts(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        while part := stream.read(_PART_BYTES):
            yield part

"""Long work asked for by a command: how far it is, on standard error, where somebody watches."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from controller.cli.client import Refused
from revisions.errors import Unavailable

if TYPE_CHECKING:
    from controller.cli.client import Client

NDJSON = "application/x-ndjson"
Told = Callable[[int, int | None], None]


def ask(
    client: "Client",
    method: str,
    path: str,
    content: bytes | Iterable[bytes] | None = None,
    sent: Mapping[str, str] | None = None,
    **params: Any,
) -> dict[str, Any]:
    """What the work answers once it is done. Raises Refused, also for what came up on the way."""
    headers = {"Accept": NDJSON, **(sent or {})}
    with (
        shown(f"{path.strip('/')} …") as tell,
        client.streamed(method, path, content, headers=headers, params=params, is_patient=True) as answer,
    ):
        for line in answer.iter_lines():
            told = json.loads(line)
            if "problem" in told:
                raise Refused(told["problem"])
            if "answer" in told:
                found: dict[str, Any] = told["answer"]
                return found
            tell(told["progress"]["done"], told["progress"]["total"])
    raise Unavailable("the answer broke off before its end")


def post(client: "Client", path: str, body: Any, headers: Mapping[str, str]) -> dict[str, Any]:
    """The same for work that a JSON body describes."""
    sent = {"Content-Type": "application/json", **headers}
    return ask(client, "POST", path, json.dumps(body).encode(), sent)


@contextmanager
def shown(what: str) -> Iterator[Told]:
    """A bar while the work goes on; nothing where standard error is no terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)

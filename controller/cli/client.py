"""The command line's side of the HTTP application: one client, over a network or within this process."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx

from controller.errors import exit_code
from reconcile.decide.trace_context import parse
from revisions.errors import Invalid, Unavailable

if TYPE_CHECKING:
    from controller.settings import Settings

API = "/api/v1"
MOST_AT_ONCE = 1000
TIMEOUT_SECONDS = 60.0
_WITHIN = "http://triggerctl"


class Refused(Exception):
    """The application answered with a problem document."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__(problem["detail"])
        self.problem = problem
        self.exit_code = exit_code(problem["code"])


class Client:
    """Requests below /api/v1. All methods raise Refused, and Unavailable when there is no answer."""

    def __init__(self, connection: httpx.Client) -> None:
        self._connection = connection

    def get(self, path: str, **params: Any) -> Any:
        return self.request("GET", path, params=params).json()

    def post(self, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None, **params: Any) -> Any:
        return self.request("POST", path, body, headers=headers, params=params).json()

    def put(self, path: str, body: Any, *, headers: Mapping[str, str] | None = None, **params: Any) -> Any:
        return self.request("PUT", path, body, headers=headers, params=params).json()

    def delete(self, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None) -> Any:
        return self.request("DELETE", path, body, headers=headers).json()

    def download(self, path: str, **params: Any) -> bytes:
        return self.request("GET", path, params=params).content

    def items(self, path: str, limit: int | None = None, cursor: str | None = None, **params: Any) -> dict[str, Any]:
        """A list as one page: all of it, or `limit` items and the cursor from which it goes on."""
        found: list[Any] = []
        while limit is None or len(found) < limit:
            at_once = MOST_AT_ONCE if limit is None else min(MOST_AT_ONCE, limit - len(found))
            page = self.get(path, limit=at_once, cursor=cursor, **params)
            found += page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        return {"items": found, "next_cursor": cursor}

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> httpx.Response:
        """One request; parameters that are None are left out."""
        content, sent = None, dict(headers or {})
        if body is not None:
            content = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        with self.streamed(method, path, content, headers=sent, params=params) as answer:
            answer.read()
            return answer

    @contextmanager
    def streamed(
        self,
        method: str,
        path: str,
        content: bytes | Iterable[bytes] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, Any] | None = None,
        is_patient: bool = False,
    ) -> Iterator[httpx.Response]:
        """An answer whose body is still to be read; with `is_patient` the next part may take as long as it wants."""
        query = {name: _text(value) for name, value in (params or {}).items() if value is not None}
        timeout = httpx.Timeout(TIMEOUT_SECONDS, read=None) if is_patient else httpx.USE_CLIENT_DEFAULT
        try:
            with self._connection.stream(
                method, API + path, content=content, headers=headers, params=query, timeout=timeout
            ) as answer:
                if answer.is_error:
                    answer.read()
                    raise Refused(_problem(answer))
                yield answer
        except httpx.TransportError as error:
            why = str(error) or type(error).__name__
            raise Unavailable(f"{self._connection.base_url} cannot be reached: {why}") from error


@contextmanager
def over_network(server: str, token: str | None) -> Iterator[Client]:
    """A client of a running server. Raises Invalid for what is no address."""
    if not server.startswith(("http://", "https://")):
        raise Invalid.at("--server", f"{server!r} is not an address", "write http://host:8080")
    headers = _part_of() | ({"Authorization": f"Bearer {token}"} if token else {})
    try:
        connection = httpx.Client(base_url=server.rstrip("/"), headers=headers, timeout=TIMEOUT_SECONDS)
    except (httpx.InvalidURL, ValueError) as error:
        raise Invalid.at("--server", f"{server!r} is not an address: {error}", "write http://host:8080") from None
    with connection:
        yield Client(connection)


@contextmanager
def in_process(settings: "Settings", actor: str) -> Iterator[Client]:
    """A client of the same application in this process, straight to the database."""
    from controller.app import create_app
    from controller.cli.within import InProcess
    from controller.services import Services
    from revisions.store.database import Database

    with Database(settings.database_url, pool_size=1) as database:
        app = create_app(Services.over(database, settings))
        with httpx.Client(transport=InProcess(app, actor), base_url=_WITHIN, headers=_part_of()) as connection:
            yield Client(connection)


def _part_of() -> dict[str, str]:
    """The trace of whatever the command is a part of: a build, or a task of ours (O-04)."""
    parent = parse(os.environ.get("TRACEPARENT"))
    return {"traceparent": str(parent)} if parent else {}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _problem(answer: httpx.Response) -> Mapping[str, Any]:
    try:
        document = answer.json()
    except ValueError:
        document = None
    if isinstance(document, dict) and "code" in document and "detail" in document:
        return document
    code = "unavailable" if answer.status_code in (502, 503, 504) else "unexpected"
    return {"code": code, "detail": f"{answer.url} answered {answer.status_code} {answer.reason_phrase}", "errors": []}

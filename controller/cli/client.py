"""Client of the HTTP application, over a network or within this process."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx

from controller.cli import output
from controller.errors import exit_code
from reconcile.decide.trace_context import parse
from revisions.errors import Invalid, Unavailable

if TYPE_CHECKING:
    from controller.settings import Settings

API = "/api/v1"
MAX_PAGE_SIZE = 1000
TIMEOUT_SECONDS = 60.0
_IN_PROCESS_URL = "http://triggerctl"
_NDJSON = "application/x-ndjson"


class ApiError(Exception):
    """Problem document with which the application answered a request."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__(problem["detail"])
        self.problem = problem
        self.exit_code = exit_code(problem["code"])


class Client:
    """Requests below /api/v1.

    Every method raises ApiError for an error response, and Unavailable when there is no response.
    """

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

    def list_items(
        self, path: str, limit: int | None = None, cursor: str | None = None, **params: Any
    ) -> dict[str, Any]:
        """Return a list as one page: all of it, or `limit` items and the cursor at which it continues."""
        items: list[Any] = []
        while limit is None or len(items) < limit:
            page_size = MAX_PAGE_SIZE if limit is None else min(MAX_PAGE_SIZE, limit - len(items))
            page = self.get(path, limit=page_size, cursor=cursor, **params)
            items += page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        return {"items": items, "next_cursor": cursor}

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> httpx.Response:
        """Send one request and read the whole response. Parameters that are None are left out."""
        content, sent = None, dict(headers or {})
        if body is not None:
            content = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        with self.stream(method, path, content, headers=sent, params=params) as response:
            response.read()
            return response

    def request_with_progress(
        self,
        method: str,
        path: str,
        content: bytes | Iterable[bytes] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        **params: Any,
    ) -> dict[str, Any]:
        """Send a request that takes long, show its progress on standard error, and return the answer at its end.

        Raises ApiError also for a problem that comes up after the response has begun.
        """
        with (
            output.progress_bar(f"{path.strip('/')} …") as show_progress,
            self.stream(
                method,
                path,
                content,
                headers={"Accept": _NDJSON, **(headers or {})},
                params=params,
                has_read_timeout=False,
            ) as response,
        ):
            for line in response.iter_lines():
                message = json.loads(line)
                if "problem" in message:
                    raise ApiError(message["problem"])
                if "answer" in message:
                    answer: dict[str, Any] = message["answer"]
                    return answer
                show_progress(message["progress"]["done"], message["progress"]["total"])
        raise Unavailable("the answer broke off before its end")

    def post_with_progress(self, path: str, body: Any, *, headers: Mapping[str, str]) -> dict[str, Any]:
        """Send `request_with_progress` with a JSON body."""
        sent = {"Content-Type": "application/json", **headers}
        return self.request_with_progress("POST", path, json.dumps(body).encode(), headers=sent)

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        content: bytes | Iterable[bytes] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, Any] | None = None,
        has_read_timeout: bool = True,
    ) -> Iterator[httpx.Response]:
        """Open a response whose body is still to be read; without the timeout its next part may take any time."""
        query = {name: _query_text(value) for name, value in (params or {}).items() if value is not None}
        timeout = httpx.USE_CLIENT_DEFAULT if has_read_timeout else httpx.Timeout(TIMEOUT_SECONDS, read=None)
        try:
            with self._connection.stream(
                method, API + path, content=content, headers=headers, params=query, timeout=timeout
            ) as response:
                if response.is_error:
                    response.read()
                    raise ApiError(_problem(response))
                yield response
        except httpx.TransportError as error:
            cause = str(error) or type(error).__name__
            raise Unavailable(f"{self._connection.base_url} cannot be reached: {cause}") from error


@contextmanager
def over_network(server: str, token: str | None) -> Iterator[Client]:
    """Open a client of a running server. Raises Invalid when `server` is not an address."""
    if not server.startswith(("http://", "https://")):
        raise Invalid.at("--server", f"{server!r} is not an address", "write http://host:8080")
    headers = _trace_headers() | ({"Authorization": f"Bearer {token}"} if token else {})
    try:
        connection = httpx.Client(base_url=server.rstrip("/"), headers=headers, timeout=TIMEOUT_SECONDS)
    except (httpx.InvalidURL, ValueError) as error:
        raise Invalid.at("--server", f"{server!r} is not an address: {error}", "write http://host:8080") from None
    with connection:
        yield Client(connection)


@contextmanager
def in_process(settings: "Settings", actor: str) -> Iterator[Client]:
    """Open a client of the same application in this process, working on the database directly."""
    from controller.app import create_app
    from controller.cli.in_process import InProcessTransport
    from controller.services import Services
    from revisions.store.database import Database

    with Database(settings.database_url, pool_size=1) as database:
        app = create_app(Services.over(database, settings))
        transport = InProcessTransport(app, actor)
        with httpx.Client(transport=transport, base_url=_IN_PROCESS_URL, headers=_trace_headers()) as connection:
            yield Client(connection)


def if_match(revision: int) -> dict[str, str]:
    """Return the header that makes a change a conflict unless the resource is at this revision."""
    return {"If-Match": f'"{revision}"'}


def if_match_or_new(revision: int | None) -> dict[str, str]:
    """Return the same header; with None, the one that makes the change a conflict if the resource exists."""
    return {"If-None-Match": "*"} if revision is None else if_match(revision)


def without_none(**fields: Any) -> dict[str, Any]:
    """Return a request body without the fields that are None."""
    return {name: value for name, value in fields.items() if value is not None}


def _trace_headers() -> dict[str, str]:
    """Continue the trace that the environment names, such as a build's or one of our tasks' (O-04)."""
    parent = parse(os.environ.get("TRACEPARENT"))
    return {"traceparent": str(parent)} if parent else {}


def _query_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _problem(response: httpx.Response) -> Mapping[str, Any]:
    """Return the problem document of an error response; make one up when a proxy answered in some other form."""
    try:
        document = response.json()
    except ValueError:
        document = None
    if isinstance(document, dict) and "code" in document and "detail" in document:
        return document
    code = "unavailable" if response.status_code in (502, 503, 504) else "unexpected"
    detail = f"{response.url} answered {response.status_code} {response.reason_phrase}"
    return {"code": code, "detail": detail, "errors": []}

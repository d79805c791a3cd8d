"""The command line's HTTP client: lists in pages, statuses of many runs, and logs that are followed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest

from controller.cli.client import MAX_PAGE_SIZE, Client
from controller.cli.runs import follow_log
from controller.cli.triggers import RUNS_PER_REQUEST, last_run_statuses


@contextmanager
def client_of(respond: Callable[[httpx.Request], httpx.Response]) -> Iterator[Client]:
    with httpx.Client(transport=httpx.MockTransport(respond), base_url="http://test") as connection:
        yield Client(connection)


@pytest.mark.parametrize(
    ("limit", "count", "page_sizes", "next_cursor"),
    [
        (None, 2500, [MAX_PAGE_SIZE, MAX_PAGE_SIZE, MAX_PAGE_SIZE], None),
        (1500, 1500, [MAX_PAGE_SIZE, 500], "1500"),
        (10, 10, [10], "10"),
        (9999, 2500, [MAX_PAGE_SIZE, MAX_PAGE_SIZE, MAX_PAGE_SIZE], None),
    ],
    ids=["no limit", "limit in the second page", "limit in the first page", "limit beyond the end"],
)
def test_a_list_is_read_in_pages_up_to_its_limit(
    limit: int | None, count: int, page_sizes: list[int], next_cursor: str | None
) -> None:
    """L-03, U-01: without a limit the list is whole; with one the cursor tells where it continues."""
    requested: list[int] = []

    def respond(request: httpx.Request) -> httpx.Response:
        requested.append(int(request.url.params["limit"]))
        start = int(request.url.params.get("cursor", 0))
        end = min(start + requested[-1], 2500)
        items = list(range(start, end))
        return httpx.Response(200, json={"items": items, "next_cursor": str(end) if end < 2500 else None})

    with client_of(respond) as client:
        answer = client.list_items("/things", limit)
    assert answer == {"items": list(range(count)), "next_cursor": next_cursor}
    assert requested == page_sizes


def test_the_last_runs_of_many_triggers_are_read_in_batches() -> None:
    """U-01: no status is missing, and no URL becomes too long for a proxy."""
    runs = [f"{number:026}" for number in range(RUNS_PER_REQUEST * 2 + 1)]
    triggers = [{"status": {"last_run_id": run, "last_outcome": "started"}} for run in runs]
    triggers.append({"status": {"last_run_id": "other", "last_outcome": "skipped"}})
    batches: list[int] = []

    def respond(request: httpx.Request) -> httpx.Response:
        ids = request.url.params["id"].split(",")
        batches.append(len(ids))
        return httpx.Response(200, json={"items": [{"id": id, "status": "pending"} for id in ids], "next_cursor": None})

    with client_of(respond) as client:
        assert last_run_statuses(client, triggers) == dict.fromkeys(runs, "pending")
    assert batches == [RUNS_PER_REQUEST, RUNS_PER_REQUEST, 1]


def test_a_followed_log_starts_over_with_an_attempt_that_was_handed_back(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """X-17, X-07: the attempt that begins again under the same number is printed from its beginning."""
    logs = iter([(b"one\ntwo\n", 8, "running"), (b"", 0, "running"), (b"anew\n", 5, "succeeded")])
    positions: list[str] = []

    def respond(request: httpx.Request) -> httpx.Response:
        positions.append(request.url.params["position"])
        content, position, status = next(logs)
        headers = {"Position": str(position), "Attempt": "1", "Newest-Attempt": "1", "Status": status}
        return httpx.Response(
            200, content=content, headers={f"Triggerctl-{name}": value for name, value in headers.items()}
        )

    with client_of(respond) as client:
        follow_log(client, "/runs/1/logs", None)
    assert positions == ["0", "8", "0"]
    assert capfdbinary.readouterr().out == b"one\ntwo\nanew\n"

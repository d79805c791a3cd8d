"""Many writers at the same moment over real HTTP."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from controller import settings
from controller.app import create_app
from controller.services import Services
from revisions.store.database import Database
from tests.controller.asking import IS_NEW, Api, T, at, manifest, task_manifest
from tests.waiting import PATIENCE, eventually

WRITERS = 64


@pytest.fixture
def address(database_url: str) -> Iterator[str]:
    """Address of a real server over a real database with its own clock."""
    with Database(database_url) as database:
        app: FastAPI = create_app(Services.over(database, settings.load()))
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
        thread = threading.Thread(target=server.run)
        thread.start()
        eventually(lambda: server.started)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.fixture
def api(address: str) -> Iterator[Api]:
    with httpx.Client(base_url=address, timeout=PATIENCE) as client:
        api = Api(client)
        assert api.put("/tasks/acme/production/report/v1", task_manifest()).status_code == 201
        yield api


def send_at_once(address: str, send: Callable[[Api, int], httpx.Response]) -> list[httpx.Response]:
    """Send a request from 64 clients at the same moment, and return the answers."""
    barrier = threading.Barrier(WRITERS)
    answers: list[httpx.Response] = []

    def writer(number: int) -> None:
        # verify=False, because every client would read the certificates anew
        with httpx.Client(base_url=address, timeout=PATIENCE, verify=False) as client:
            client.get("/healthz")
            barrier.wait()
            answers.append(send(Api(client), number))

    threads = [threading.Thread(target=writer, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_64_writers_from_one_revision(address: str, api: Api) -> None:
    """R-07: one succeeds, 63 get a conflict with the current revision; numbers have no gap and no duplicate."""
    api.create()
    answers = send_at_once(
        address, lambda client, number: client.put(T, manifest(description=f"writer {number}"), at(1))
    )
    assert Counter(answer.status_code for answer in answers) == {200: 1, 412: WRITERS - 1}
    assert {answer.json()["current_revision"] for answer in answers if answer.status_code == 412} == {2}
    assert api.actions() == ["DEPLOY", "DEPLOY"]


def test_64_writers_of_one_creation(address: str, api: Api) -> None:
    """R-07: one gets 201, 63 get 412."""
    answers = send_at_once(
        address, lambda client, number: client.put(T, manifest(description=f"writer {number}"), IS_NEW)
    )
    assert Counter(answer.status_code for answer in answers) == {201: 1, 412: WRITERS - 1}
    assert api.actions() == ["DEPLOY"]


def test_64_retries_of_one_request(address: str, api: Api) -> None:
    """R-04: a request sent 64 times under one key is done once and answered alike."""
    answers = send_at_once(address, lambda client, _: client.put(T, manifest(), IS_NEW | {"Idempotency-Key": "one"}))
    assert Counter(answer.status_code for answer in answers) == {201: WRITERS}
    assert len({answer.text for answer in answers}) == 1
    assert api.actions() == ["DEPLOY"]


def test_an_oversized_body_is_answered_over_the_wire(api: Api) -> None:
    """U-01: the client gets 413 instead of a broken connection."""
    answer = api.send("PUT", T, b"x" * 3_000_000, if_none_match="*")
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")

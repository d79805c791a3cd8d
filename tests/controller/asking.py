"""Client of the API, and the names and manifests that most tests send."""

import json
from typing import Any

import httpx

T = "/triggers/acme/production/report/tick"
NAME = "acme/production/report/tick"
IS_NEW = {"If-None-Match": "*"}
BY_HAND: dict[str, Any] = {"schedule": {"at": "2060-01-01T00:00:00Z"}}  # fires only by hand in tests on the real clock


def at(revision: int) -> dict[str, str]:
    return {"If-Match": f'"{revision}"'}


def task_manifest(**spec: Any) -> dict[str, Any]:
    return {"spec": {"launcher": "process", "process": {"command": ["true"]}, **spec}}


def manifest(tags: Any = None, **spec: Any) -> dict[str, Any]:
    """Return the manifest of a trigger that fires every minute, unless the spec says otherwise."""
    document: dict[str, Any] = {"spec": {"task_version": "v1", "schedule": {"every": "1m"}, **spec}}
    return document if tags is None else document | {"metadata": {"tags": tags}}


class Api:
    """Client for the paths below /api/v1."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client

    def get(self, path: str, **params: Any) -> httpx.Response:
        return self.client.get(f"/api/v1{path}", params=params or None)

    def put(self, path: str, body: Any, headers: dict[str, str] | None = None) -> httpx.Response:
        content = json.dumps(body).encode()  # in ASCII, so that half a character can be sent
        sent = {"Content-Type": "application/json", **(headers or {})}
        return self.client.put(f"/api/v1{path}", content=content, headers=sent)

    def post(self, path: str, body: Any = None, headers: dict[str, str] | None = None) -> httpx.Response:
        return self.client.post(f"/api/v1{path}", json=body, headers=headers)

    def delete(self, path: str, headers: dict[str, str] | None = None) -> httpx.Response:
        return self.client.delete(f"/api/v1{path}", headers=headers)

    def send(self, method: str, path: str, content: bytes, **headers: str) -> httpx.Response:
        """Send a body as bytes. Underscores in the names of headers become hyphens."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.request(method, f"/api/v1{path}", content=content, headers=sent)

    def create(self, path: str = T, **spec: Any) -> dict[str, Any]:
        """Create a trigger and return it."""
        answer = self.put(path, manifest(**spec), IS_NEW)
        assert answer.status_code == 201, answer.text
        trigger: dict[str, Any] = answer.json()
        return trigger

    def actions(self, path: str = T) -> list[str]:
        """Return the actions of a trigger's history, oldest first."""
        items = self.get(f"{path}/revisions").json()["items"]
        assert [item["revision"] for item in items] == list(range(len(items), 0, -1))
        return [item["action"] for item in reversed(items)]

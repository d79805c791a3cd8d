"""Load on a controller: runs that succeed, fail, are skipped, rate-limited, caught up or frozen."""

from typing import Any

import httpx

from tests.controller.asking import IS_NEW, at
from tests.waiting import PATIENCE

SETTINGS = {
    "RESYNC_INTERVAL": "1s",
    "LIVE_GRACE": "12s",
    "EXECUTION_QPS": "10",
    "EXECUTION_BURST": "2",
    "MAX_CATCHUP_RUNS_PER_LOOP": "2",
    "MAX_RUNNING": "8",
}
PROJECT, FROZEN, BUSY = "acme", "cold", "busy"
COSTLY = """echo '{"cost": 1}' >"$TRIGGERCTL_OUTPUT" """
TASKS = {"quick": "exit 0", "failing": "exit 1", "slow": "sleep 2.5", "costly": COSTLY}
SECOND: dict[str, Any] = {"schedule": {"every": "1s"}, "overlap": "allow"}


class Load:
    """Operations of a person over the API."""

    def __init__(self, url: str) -> None:
        self.client = httpx.Client(base_url=f"{url}/api/v1", timeout=PATIENCE)

    def begin(self) -> None:
        """Create all triggers and put load on the controller. Faults are staged by the tests."""
        for project in (PROJECT, FROZEN, BUSY):
            for name, script in TASKS.items():
                process = {"command": ["/bin/sh", "-c", script]}
                self._put(f"/tasks/{project}/production/{name}/v1", {"launcher": "process", "process": process})
        self.freeze(FROZEN)
        for project in (PROJECT, FROZEN):
            self.deploy(project, "costly", "spends", **SECOND, limits={"max_cost": 1000, "estimate": 1})
        self.deploy(PROJECT, "quick", "steady", **SECOND)
        self.deploy(PROJECT, "slow", "skips", **SECOND | {"overlap": "skip"})
        self.deploy(PROJECT, "failing", "fails", **SECOND, retry={"max_attempts": 1}, deactivate_after=3)
        self.deploy(
            PROJECT,
            "failing",
            "fails-on",
            **SECOND,
            retry={"max_attempts": 1},
            deactivate_after=1000,
            expect={"within": "1s"},
        )
        self.deploy(PROJECT, "quick", "rests", **SECOND)
        self._post(f"/triggers/{PROJECT}/production/quick/rests/deactivate", at(1))
        self._post(f"/triggers/{PROJECT}/production/quick/steady/fire", body={"overlap": "allow"})
        self.freeze(BUSY)
        self.deploy(BUSY, "quick", "caught-up", **SECOND, catchup={"policy": "all"})

    def start_catch_up(self) -> None:
        """End the freeze after which missed occurrences are caught up."""
        self.unfreeze(BUSY)

    def exceed_rate(self) -> None:
        """Deploy more triggers than the rate limit allows to start."""
        for number in range(14):
            self.deploy(BUSY, "quick", f"excess-{number}", **SECOND, tags=["excess"])

    def end_excess(self) -> None:
        self._ask("POST", "/triggers:deactivate", {}, {"tag": "excess"})

    def freeze(self, project: str) -> None:
        self._ask("POST", "/freeze", {}, {"project": project, "reason": "staged fault"})

    def unfreeze(self, project: str) -> None:
        self._ask("POST", "/unfreeze", {}, {"project": project, "reason": "fault ended"})

    def deploy(self, project: str, task: str, name: str, *, tags: Any = (), **spec: Any) -> None:
        body = {"metadata": {"tags": list(tags)}, "spec": {"task_version": "v1", **spec}}
        self._ask("PUT", f"/triggers/{project}/production/{task}/{name}", IS_NEW, body)

    def close(self) -> None:
        self.client.close()

    def _put(self, path: str, spec: dict[str, Any]) -> None:
        self._ask("PUT", path, {}, {"spec": spec})

    def _post(self, path: str, headers: dict[str, str] | None = None, body: Any = None) -> None:
        self._ask("POST", path, headers or {}, body)

    def _ask(self, method: str, path: str, headers: dict[str, str], body: Any) -> None:
        answer = self.client.request(method, path, headers=headers, json=body)
        assert answer.is_success, f"{path}: {answer.text}"

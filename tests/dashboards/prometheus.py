"""A real Prometheus, which scrapes a controller every three seconds and answers queries."""

import math
import subprocess
from pathlib import Path
from typing import Any

import httpx

from tests.waiting import PATIENCE, eventually

JOB = "triggerctl"
_CONFIG = """
global: {{scrape_interval: 3s, scrape_timeout: 3s, evaluation_interval: 3s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: {job}
    static_configs: [{{targets: ["{target}"]}}]
"""

Sample = tuple[dict[str, str], float]
"""Labels and value."""


class Prometheus:
    """Answers over HTTP as Grafana asks, at a port; started at once."""

    def __init__(self, target: str, rules: Path, folder: Path, port: int) -> None:
        folder.mkdir()
        (folder / "config.yml").write_text(_CONFIG.format(target=target, rules=rules, job=JOB))
        address = f"127.0.0.1:{port}"
        self._log = folder / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={folder / 'config.yml'}",
                    f"--storage.tsdb.path={folder / 'data'}",
                    f"--web.listen-address={address}",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._client = httpx.Client(base_url=f"http://{address}/api/v1", timeout=PATIENCE)
        eventually(self._is_up)

    def query(self, expression: str) -> list[Sample]:
        """What an expression comes to now, without what is no number. Fails where Prometheus refuses it."""
        found = self._ask("/query", query=expression)
        if found["resultType"] == "scalar":
            return [({}, float(found["result"][1]))]
        samples = [(one["metric"], float(one["value"][1])) for one in found["result"]]
        return [(labels, value) for labels, value in samples if not math.isnan(value)]

    def labels(self, selector: str, label: str) -> list[str]:
        """The values of a label, as Grafana asks for a variable's."""
        values: list[str] = self._ask(f"/label/{label}/values", **{"match[]": selector})
        return values

    def rules(self) -> list[dict[str, Any]]:
        """The loaded rules, with their health."""
        return [rule for group in self._ask("/rules")["groups"] for rule in group["rules"]]

    def stop(self) -> None:
        self._client.close()
        self._process.terminate()
        self._process.wait(PATIENCE)

    def _ask(self, path: str, **parameters: str) -> Any:
        answer = self._client.get(path, params=parameters)
        body = answer.json()
        assert body["status"] == "success", f"{parameters}: {body.get('error')}"
        return body["data"]

    def _is_up(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()
        try:
            return self._client.get("/status/buildinfo").is_success
        except httpx.TransportError:
            return False

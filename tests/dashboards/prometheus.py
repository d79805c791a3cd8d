"""Real Prometheus server that scrapes a controller every three seconds and answers queries."""

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
    """Prometheus at a port, running once the constructor returns."""

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
        """Return the current result of an expression, without NaN. Fail if Prometheus refuses it."""
        answer = self._ask("/query", query=expression)
        if answer["resultType"] == "scalar":
            return [({}, float(answer["result"][1]))]
        samples = [(series["metric"], float(series["value"][1])) for series in answer["result"]]
        return [(labels, value) for labels, value in samples if not math.isnan(value)]

    def labels(self, selector: str, label: str) -> list[str]:
        """Return the values of a label, as Grafana asks for a variable's values."""
        values: list[str] = self._ask(f"/label/{label}/values", **{"match[]": selector})
        return values

    def rules(self) -> list[dict[str, Any]]:
        """Return the loaded rules with their health."""
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

"""A pod without a cluster: what the chart says of a container, done by hand for a real process."""

import os
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import httpx

from tests.chart.image import UID, as_its_user
from tests.chart.objects import Rendered
from tests.waiting import PATIENCE, eventually

PLACES = ("etc/triggerctl", "work", "data", "tmp")
"""The container's folders, which lie elsewhere here."""


class Pod:
    """One container of a release: its folder, its variables and its arguments; Secrets and its port here are given."""

    def __init__(
        self,
        installed: Rendered,
        name: str,
        program: Path,
        folder: Path,
        secrets: Mapping[str, Mapping[str, str]],
        port: int,
    ) -> None:
        [self.spec] = [spec for found, _, spec in installed.pods() if found == name]
        [self._container] = self.spec["containers"]
        self._program, self._folder, self._secrets = program, folder, secrets
        self._port = port
        self._process: subprocess.Popen[str] | None = None
        self._mount(installed)

    def _mount(self, installed: Rendered) -> None:
        """The ConfigMap's files, and folders that the container's user may write to where a volume is mounted."""
        for place in PLACES:
            (self._folder / place).mkdir(parents=True, exist_ok=True)
        for volume in self.spec.get("volumes", []):
            if "configMap" in volume:
                [found] = [
                    each
                    for each in installed.of("ConfigMap")
                    if each["metadata"]["name"] == volume["configMap"]["name"]
                ]
                for file, text in found["data"].items():
                    (self._folder / "etc/triggerctl" / file).write_text(self._here(text))
        if as_its_user():
            for mount in self._container.get("volumeMounts", []):
                if not mount.get("readOnly"):
                    os.chown(self._folder / mount["mountPath"][1:], UID, UID)

    def _here(self, text: str) -> str:
        """The text with the container's paths and port as they are on this machine."""
        text = re.sub(rf"(?<!\w)/({'|'.join(PLACES)})\b", rf"{self._folder}/\1", text)
        return text.replace("0.0.0.0:8080", f"0.0.0.0:{self._port}")

    @property
    def environment(self) -> dict[str, str]:
        found = {"PATH": os.pathsep.join([str(self._program / "bin"), os.environ["PATH"]])}
        for variable in self._container.get("env", []):
            if "value" in variable:
                found[variable["name"]] = self._here(variable["value"])
            else:
                reference = variable["valueFrom"]["secretKeyRef"]
                found[variable["name"]] = self._secrets[reference["name"]][reference["key"]]
        return found

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Runs another command in the container, as `kubectl exec` does."""
        return subprocess.run(
            [*as_its_user(), *command],
            cwd=self._folder / "data",
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def finish(self, replacing: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Runs the container's own command to its end; `replacing` is for names that no DNS here knows."""
        command = [*self._container.get("command", ["triggerctl"]), *self._container["args"]]
        return self.run(*[(replacing or {}).get(word, word) for word in command])

    def start(self) -> None:
        self._process = subprocess.Popen(
            [*as_its_user(), "triggerctl", *self._container["args"]],
            cwd=self._folder / "data",
            env=self.environment,
            stderr=(self._folder / "log").open("w"),
            text=True,
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def log(self) -> str:
        return (self._folder / "log").read_text()

    def get(self, path: str, token: str = "") -> httpx.Response:
        """Asks as the kubelet and Prometheus do: by the pod's own address."""
        headers = {"Host": "10.1.2.3:8080"} | ({"Authorization": f"Bearer {token}"} if token else {})
        return httpx.get(self.url + path, headers=headers, timeout=PATIENCE)

    def passes(self, probe: str) -> bool:
        """Whether a probe of the container's succeeds now."""
        assert self._process is not None
        assert self._process.poll() is None, self.log
        try:
            return self.get(self._container[probe]["httpGet"]["path"]).is_success
        except httpx.TransportError:
            return False

    def wait_until_ready(self) -> None:
        eventually(lambda: self.passes("startupProbe"))
        eventually(lambda: self.passes("readinessProbe"))
        assert self.passes("livenessProbe")

    def stop(self) -> int:
        """SIGTERM, and the exit code within the pod's grace period."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(self.spec["terminationGracePeriodSeconds"])

    def end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

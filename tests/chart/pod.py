"""A pod without a cluster: a real process that runs as the chart describes the container."""

import os
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import httpx

from tests.chart.image import UID, as_image_user
from tests.chart.objects import Rendered
from tests.waiting import PATIENCE, eventually

PLACES = ("etc/triggerctl", "work", "data", "tmp")
"""Folders of the container, which are moved below another folder here."""


class Pod:
    """One container of a release: its folder, environment and arguments. Secrets and the local port are given."""

    def __init__(
        self,
        installed: Rendered,
        name: str,
        program: Path,
        folder: Path,
        secrets: Mapping[str, Mapping[str, str]],
        port: int,
    ) -> None:
        [self.spec] = [spec for pod_name, _, spec in installed.pods() if pod_name == name]
        [self._container] = self.spec["containers"]
        self._program, self._folder, self._secrets = program, folder, secrets
        self._port = port
        self._process: subprocess.Popen[str] | None = None
        self._mount(installed)

    def _mount(self, installed: Rendered) -> None:
        """Write the ConfigMap's files, and let the container's user write where a volume is mounted."""
        for place in PLACES:
            (self._folder / place).mkdir(parents=True, exist_ok=True)
        for volume in self.spec.get("volumes", []):
            if "configMap" in volume:
                [config_map] = [
                    each
                    for each in installed.of_kind("ConfigMap")
                    if each["metadata"]["name"] == volume["configMap"]["name"]
                ]
                for file, text in config_map["data"].items():
                    (self._folder / "etc/triggerctl" / file).write_text(self._with_local_paths(text))
        if as_image_user():
            for mount in self._container.get("volumeMounts", []):
                if not mount.get("readOnly"):
                    os.chown(self._folder / mount["mountPath"][1:], UID, UID)

    def _with_local_paths(self, text: str) -> str:
        """Replace the container's paths and port by those on this machine."""
        text = re.sub(rf"(?<!\w)/({'|'.join(PLACES)})\b", rf"{self._folder}/\1", text)
        return text.replace("0.0.0.0:8080", f"0.0.0.0:{self._port}")

    @property
    def environment(self) -> dict[str, str]:
        variables = {"PATH": os.pathsep.join([str(self._program / "bin"), os.environ["PATH"]])}
        for variable in self._container.get("env", []):
            if "value" in variable:
                variables[variable["name"]] = self._with_local_paths(variable["value"])
            else:
                reference = variable["valueFrom"]["secretKeyRef"]
                variables[variable["name"]] = self._secrets[reference["name"]][reference["key"]]
        return variables

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run another command in the container, as `kubectl exec` does."""
        return subprocess.run(
            [*as_image_user(), *command],
            cwd=self._folder / "data",
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def run_to_end(self, replacing: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run the container's own command to its end. `replacing` maps arguments that only a cluster's DNS resolves."""
        command = [*self._container.get("command", ["triggerctl"]), *self._container["args"]]
        return self.run(*[(replacing or {}).get(word, word) for word in command])

    def start(self) -> None:
        self._process = subprocess.Popen(
            [*as_image_user(), "triggerctl", *self._container["args"]],
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
        """Send a request as the kubelet and Prometheus do: to the pod's own address."""
        headers = {"Host": "10.1.2.3:8080"} | ({"Authorization": f"Bearer {token}"} if token else {})
        return httpx.get(self.url + path, headers=headers, timeout=PATIENCE)

    def passes(self, probe: str) -> bool:
        """Return True if a probe of the container succeeds now."""
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
        """Send SIGTERM and return the exit code; fail if the pod's grace period is exceeded."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(self.spec["terminationGracePeriodSeconds"])

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

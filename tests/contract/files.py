"""Files through which tests and tasks communicate: on this machine, or in the pod of a real cluster."""

import os
from pathlib import Path
from typing import Any, Protocol

from reconcile.launchers.shared import kubernetes_job
from reconcile.plugins import Launch

GONE = ""
"""Content of a file whose pod has ended."""


class Files(Protocol):
    def select_attempt(self, launch: Launch) -> None:
        """Use the files of this attempt from now on."""

    def path(self, name: str) -> str:
        """Return the path as the task sees it."""

    def exists(self, name: str) -> bool: ...

    def touch(self, name: str) -> None: ...

    def read(self, name: str) -> str: ...


class LocalFiles:
    def __init__(self, root: Path) -> None:
        self._root = root / "shared"
        self._root.mkdir()

    def select_attempt(self, launch: Launch) -> None:
        """Do nothing: all attempts share these files."""

    def path(self, name: str) -> str:
        return str(self._root / name)

    def exists(self, name: str) -> bool:
        return (self._root / name).exists()

    def touch(self, name: str) -> None:
        (self._root / name).touch()

    def read(self, name: str) -> str:
        return (self._root / name).read_text()


class PodFiles:
    """Files in a pod, accessed by commands in its container. Without a container no file exists."""

    def __init__(self) -> None:
        from kubernetes import client
        from kubernetes import config as untyped

        config: Any = untyped
        context = config.list_kube_config_contexts()[1]["context"]
        config.load_kube_config()
        self._core, self._namespace = client.CoreV1Api(), context.get("namespace", "default")
        self._job = ""

    def select_attempt(self, launch: Launch) -> None:
        self._job = kubernetes_job.name(launch)

    def path(self, name: str) -> str:
        return f"/tmp/{name}"

    def exists(self, name: str) -> bool:
        return "yes" in self._run(f"test -e /tmp/{name} && echo yes")

    def touch(self, name: str) -> None:
        self._run(f"touch /tmp/{name}")

    def read(self, name: str) -> str:
        return self._run(f"cat /tmp/{name}")

    def _run(self, command: str) -> str:
        from kubernetes.client import ApiException
        from kubernetes.stream import stream

        selector = f"batch.kubernetes.io/job-name={self._job}"
        running = [
            pod.metadata.name
            for pod in self._core.list_namespaced_pod(self._namespace, label_selector=selector).items
            if pod.metadata and pod.status and pod.status.phase == "Running"
        ]
        if not running:
            return GONE
        try:
            output: Any = stream(
                self._core.connect_get_namespaced_pod_exec,
                running[0],
                self._namespace,
                command=["sh", "-c", command],
                stdout=True,
                stderr=False,
            )
        except ApiException:  # the pod has ended meanwhile
            return GONE
        return str(output)


def files_of(kind: str, root: Path) -> Files:
    return PodFiles() if kind == "kubernetes" and "TEST_KUBECONFIG" in os.environ else LocalFiles(root)

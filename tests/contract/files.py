"""Where tasks and tests meet: files of this machine, or, in a real cluster, of the pod."""

import os
from pathlib import Path
from typing import Any, Protocol

from reconcile.launchers.shared import kubernetes_job
from reconcile.protocols import Launch

GONE = ""
"""What is read of a pod that has ended."""


class Files(Protocol):
    def work_on(self, launch: Launch) -> None:
        """From now on the files are this attempt's."""

    def path(self, name: str) -> str:
        """What the task calls it."""

    def exists(self, name: str) -> bool: ...

    def touch(self, name: str) -> None: ...

    def read(self, name: str) -> str: ...


class FilesHere:
    def __init__(self, root: Path) -> None:
        self._root = root / "met"
        self._root.mkdir()

    def work_on(self, launch: Launch) -> None:
        """They are the same for all."""

    def path(self, name: str) -> str:
        return str(self._root / name)

    def exists(self, name: str) -> bool:
        return (self._root / name).exists()

    def touch(self, name: str) -> None:
        (self._root / name).touch()

    def read(self, name: str) -> str:
        return (self._root / name).read_text()


class FilesInAPod:
    """By commands in the container; while there is none nothing exists."""

    def __init__(self) -> None:
        from kubernetes import client
        from kubernetes import config as untyped

        config: Any = untyped
        context = config.list_kube_config_contexts()[1]["context"]
        config.load_kube_config()
        self._core, self._namespace = client.CoreV1Api(), context.get("namespace", "default")
        self._job = ""

    def work_on(self, launch: Launch) -> None:
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
            said: Any = stream(
                self._core.connect_get_namespaced_pod_exec,
                running[0],
                self._namespace,
                command=["sh", "-c", command],
                stdout=True,
                stderr=False,
            )
        except ApiException:  # it ended meanwhile
            return GONE
        return str(said)


def files_of(kind: str, root: Path) -> Files:
    return FilesInAPod() if kind == "kubernetes" and "TEST_KUBECONFIG" in os.environ else FilesHere(root)

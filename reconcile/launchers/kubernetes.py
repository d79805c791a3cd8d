"""`kubernetes`: a Job of batch/v1 in a cluster."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from reconcile.launchers.shared import answers, cluster, kubernetes_job, kubernetes_pod, remote_job
from reconcile.launchers.shared.block_faults import extra_faults, refuse
from reconcile.launchers.shared.cluster import KubernetesCluster
from reconcile.launchers.shared.kubernetes_job import JobBlock
from reconcile.launchers.shared.remote_job import Unreachable
from reconcile.protocols import Launch, Launcher, LaunchError, Lost, Work, WorkProgress

SECONDS_TO_PRINT = 30
"""How long the end of an attempt waits for what is still being copied."""
AGAIN = (408, 409, 429)
"""Statuses beside 5xx that mean: not now."""


class KubernetesLauncher:
    """Runs `{image, command, args, env, namespace, service_account, resources, …}` to its end, once (X-10)."""

    finds_anywhere = True

    def read(self, written: Any) -> JobBlock:
        refuse([*extra_faults("kubernetes", "kubernetes"), *kubernetes_job.faults(written)])
        return JobBlock.of(written)

    def system(self, block: JobBlock) -> "Namespace":
        return Namespace(block.namespace, cluster.named())

    def start(self, launch: Launch) -> Work:
        return remote_job.start(launch, ClusterJob, JobBlock.of)

    def adopt(self, folder: Path) -> Work | None:
        return remote_job.adopt(folder, ClusterJob, JobBlock.of)


@dataclass(frozen=True, slots=True)
class Namespace:
    """Where Jobs start; None: in the controller's own namespace, and in the cluster that it runs in."""

    name: str | None
    kubeconfig: str | None

    def reach(self) -> None:
        """Looks for a Job that is not there, as somebody who may."""
        of = _connected(self.kubeconfig)
        with _talking(but=404):
            of.job(self.name or of.namespace, "triggerctl-doctor")


class ClusterJob:
    """The Job of one attempt, by the calls that its RBAC lists in docs/tasks.md."""

    repeatable = True

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._name = kubernetes_job.name(launch)
        self._kubeconfig = cluster.named()
        self._waits = ""
        self._leave_watch: Callable[[], None] | None = None
        self._printing: threading.Thread | None = None

    def reach(self) -> None:
        self._cluster()

    def submit(self) -> None:
        """The Job, then the Secret that it owns."""
        job = self._create_job()
        with _talking(but=409):
            self._cluster().create_secret(self._namespace, kubernetes_job.secret(self._launch, job["metadata"]["uid"]))
            return
        with _talking(but=404):
            found = self._cluster().secret(self._namespace, self._name)
            if job["metadata"]["uid"] not in [one["uid"] for one in found["metadata"].get("ownerReferences", [])]:
                self._cluster().delete_secret(self._namespace, self._name)
                raise Unreachable(f"the Secret {self._name} was of an earlier Job")

    def told(self, wake: Callable[[], None]) -> bool:
        watch = self._cluster().watch(self._namespace)
        self._leave_watch = partial(watch.leave, self._name, wake)
        return watch.join(self._name, wake)

    def look(self) -> WorkProgress:
        job = self._job()
        if job is None:
            return Lost(": ".join(filter(None, (kubernetes_pod.GONE, self._waits))))
        with _talking():
            pod = self._cluster().pod(self._namespace, self._name)
        self._waits = kubernetes_pod.waiting(pod)
        if pod and kubernetes_pod.has_printed(pod):
            self._follow(pod["metadata"]["name"], to_the_end=kubernetes_pod.ended(job) is not None)
        return kubernetes_pod.progress(job, pod, answers.last_line(self._launch.folder / "log"))

    def cancel(self, *, force: bool) -> None:
        """Its pod gets SIGTERM, later SIGKILL, from the cluster itself; the Job goes when the pod is gone."""
        self._delete("Foreground")

    def clean(self) -> None:
        if self._leave_watch:
            self._leave_watch()
        self._delete("Background")

    def _create_job(self) -> Any:
        with _talking(but=409):
            return self._cluster().create_job(self._namespace, kubernetes_job.job(self._launch))
        found = self._job()
        if found and "deletionTimestamp" not in found["metadata"]:
            return found
        raise Unreachable(f"the Job {self._name} of an earlier start is still being deleted")

    def _job(self) -> Any:
        """The Job by our name, None while there is none. Raises Foreign for another installation's."""
        found = None
        with _talking(but=404):
            found = self._cluster().job(self._namespace, self._name)
        if found:
            owner = found["metadata"].get("labels", {}).get(kubernetes_job.OWNER)
            remote_job.refuse_foreign(self._launch, f"the Job {self._name} in {self._namespace}", owner)
        return found

    def _delete(self, propagation: str) -> None:
        """That very Job; another that has come to bear its name meanwhile stays."""
        if found := self._job():
            with _talking(but=404):
                self._cluster().delete_job(self._namespace, self._name, found["metadata"]["uid"], propagation)

    def _follow(self, pod: str, *, to_the_end: bool) -> None:
        """Copies the log from a thread while the work runs; what that missed is read when it is over."""
        if self._printing is None:
            printing = threading.Thread(target=self._copy_log, args=(pod, True), name=f"log {pod}", daemon=True)
            printing.start()
            self._printing = printing
        elif not self._printing.is_alive() and not to_the_end:
            self._printing = None
        if to_the_end and self._printing:
            self._printing.join(SECONDS_TO_PRINT)
            self._copy_log(pod, False)

    def _copy_log(self, pod: str, follow: bool) -> None:
        """What the file has not yet; a log is read from its beginning, there is no other way.

        Each byte has its place, so that it does no harm when an earlier controller still copies, too.
        """
        with suppress(Unreachable, LaunchError, OSError), _talking(but=404):
            descriptor = os.open(self._launch.folder / "log", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                position = 0
                for chunk in self._cluster().log(self._namespace, pod, follow):
                    known = min(max(0, os.fstat(descriptor).st_size - position), len(chunk))
                    os.pwrite(descriptor, chunk[known:], position + known)
                    position += len(chunk)
            finally:
                os.close(descriptor)

    @property
    def _namespace(self) -> str:
        return str(self._launch.block.namespace or self._cluster().namespace)

    def _cluster(self) -> KubernetesCluster:
        return _connected(self._kubeconfig)


def _connected(kubeconfig: str | None) -> KubernetesCluster:
    """Raises LaunchError where no cluster is known."""
    try:
        return cluster.connected(kubeconfig)
    except cluster.UnknownCluster as error:
        raise LaunchError(str(error)) from None


@contextmanager
def _talking(but: int | None = None) -> Iterator[None]:
    """Turns what the cluster refuses into our errors; a status of `but` is no error, and ends the block."""
    try:
        yield
    except cluster.KubernetesRefusal as error:
        if error.status is not None and error.status == but:
            return
        if error.status is None or error.status in AGAIN or error.status >= 500:
            raise Unreachable(f"the cluster {error}") from None
        raise LaunchError(f"the cluster {error}") from None


launcher: Launcher = KubernetesLauncher()

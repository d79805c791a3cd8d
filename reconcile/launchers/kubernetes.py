"""`kubernetes`: a Job (batch/v1) in a Kubernetes cluster."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from reconcile.launchers.shared import kubernetes_cluster, kubernetes_job, kubernetes_pod, remote_job, task_output
from reconcile.launchers.shared.block_faults import extra_faults, refuse
from reconcile.launchers.shared.kubernetes_cluster import KubernetesCluster
from reconcile.launchers.shared.kubernetes_job import JobBlock
from reconcile.launchers.shared.remote_job import Unreachable
from reconcile.plugins import Launch, Launcher, LaunchError, Lost, Work, WorkProgress

SECONDS_TO_COPY = 30
"""Time for which the end of an attempt waits until its log is copied."""
TRANSIENT = (408, 409, 429)
"""Statuses, besides 5xx, after which a call can be repeated."""


class KubernetesLauncher:
    """Runs `{image, command, args, env, namespace, service_account, resources, …}` to its end, once (X-10)."""

    finds_anywhere = True

    def read(self, written: Any) -> JobBlock:
        refuse([*extra_faults("kubernetes", "kubernetes"), *kubernetes_job.faults(written)])
        return JobBlock.of(written)

    def system(self, block: JobBlock) -> "Namespace":
        return Namespace(block.namespace, kubernetes_cluster.kubeconfig_path())

    def start(self, launch: Launch) -> Work:
        return remote_job.start(launch, JobCalls, JobBlock.of)

    def adopt(self, folder: Path) -> Work | None:
        return remote_job.adopt(folder, JobCalls, JobBlock.of)


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace of a cluster. None stands for the controller's own namespace and cluster."""

    name: str | None
    kubeconfig: str | None

    def reach(self) -> None:
        """Ask for a Job that does not exist. The call fails without access and without permission."""
        cluster = _connect(self.kubeconfig)
        with _translated_errors(allowed=404):
            cluster.job(self.name or cluster.namespace, "triggerctl-doctor")


class JobCalls:
    """Calls for the Job of one attempt. They need the permissions listed in docs/tasks.md."""

    is_repeatable = True

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._name = kubernetes_job.name(launch)
        self._kubeconfig = kubernetes_cluster.kubeconfig_path()
        self._waiting_reason = ""
        self._leave_watch: Callable[[], None] | None = None
        self._log_thread: threading.Thread | None = None

    def prepare(self) -> None:
        self._cluster()

    def submit(self) -> None:
        """Create the Job, then the Secret.

        In this order, because the Secret must name the Job's uid as its owner to be removed with it. If the controller
        is killed in between, the pod waits for the Secret, and the next controller creates it.
        """
        job = self._create_job()
        with _translated_errors(allowed=409):
            self._cluster().create_secret(self._namespace, kubernetes_job.secret(self._launch, job["metadata"]["uid"]))
            return
        with _translated_errors(allowed=404):
            secret = self._cluster().secret(self._namespace, self._name)
            owners = [owner["uid"] for owner in secret["metadata"].get("ownerReferences", [])]
            if job["metadata"]["uid"] not in owners:
                self._cluster().delete_secret(self._namespace, self._name)
                raise Unreachable(f"the Secret {self._name} was of an earlier Job")

    def subscribe(self, wake: Callable[[], None]) -> bool:
        watch = self._cluster().watch(self._namespace)
        self._leave_watch = partial(watch.leave, self._name, wake)
        return watch.join(self._name, wake)

    def read_progress(self) -> WorkProgress:
        job = self._job()
        if job is None:
            return Lost(": ".join(filter(None, (kubernetes_pod.GONE, self._waiting_reason))))
        with _translated_errors():
            pod = self._cluster().pod(self._namespace, self._name)
        self._waiting_reason = kubernetes_pod.waiting_reason(pod)
        if pod and kubernetes_pod.has_log(pod):
            self._follow_log(pod["metadata"]["name"], has_ended=kubernetes_pod.end_condition(job) is not None)
        return kubernetes_pod.progress(job, pod, task_output.last_line(self._launch.folder / "log"))

    def cancel(self, *, force: bool) -> None:
        """Delete the Job. The cluster ends the pod by SIGTERM, then SIGKILL, and removes the Job after it."""
        self._delete("Foreground")

    def clean_up(self) -> None:
        if self._leave_watch:
            self._leave_watch()
        self._delete("Background")

    def _create_job(self) -> Any:
        with _translated_errors(allowed=409):
            return self._cluster().create_job(self._namespace, kubernetes_job.job(self._launch))
        job = self._job()
        if job and "deletionTimestamp" not in job["metadata"]:
            return job
        raise Unreachable(f"the Job {self._name} of an earlier start is still being deleted")

    def _job(self) -> Any:
        """Return the attempt's Job, None if there is none. Raises Foreign if it is another installation's."""
        job = None
        with _translated_errors(allowed=404):
            job = self._cluster().job(self._namespace, self._name)
        if job:
            owner = job["metadata"].get("labels", {}).get(kubernetes_job.OWNER)
            remote_job.refuse_foreign(self._launch, f"the Job {self._name} in {self._namespace}", owner)
        return job

    def _delete(self, propagation: str) -> None:
        """Delete the Job that was read; the uid protects a Job created under the same name meanwhile."""
        if job := self._job():
            with _translated_errors(allowed=404):
                self._cluster().delete_job(self._namespace, self._name, job["metadata"]["uid"], propagation)

    def _follow_log(self, pod: str, *, has_ended: bool) -> None:
        """Copy the log from a thread while the work runs; after its end, once more from here for what is missing."""
        if self._log_thread is None:
            thread = threading.Thread(target=self._copy_log, args=(pod, True), name=f"log {pod}", daemon=True)
            thread.start()
            self._log_thread = thread
        elif not self._log_thread.is_alive() and not has_ended:
            self._log_thread = None  # the stream broke off; the next poll follows again
        if has_ended and self._log_thread:
            self._log_thread.join(SECONDS_TO_COPY)
            self._copy_log(pod, False)

    def _copy_log(self, pod: str, follow: bool) -> None:
        """Append to the file what it lacks. The cluster returns a log only from its beginning.

        Each byte is written at its own position, so an earlier controller that still copies the same log does no harm.
        """
        with suppress(Unreachable, LaunchError, OSError), _translated_errors(allowed=404):
            descriptor = os.open(self._launch.folder / "log", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                position = 0
                for chunk in self._cluster().log(self._namespace, pod, follow):
                    copied = min(max(0, os.fstat(descriptor).st_size - position), len(chunk))
                    os.pwrite(descriptor, chunk[copied:], position + copied)
                    position += len(chunk)
            finally:
                os.close(descriptor)

    @property
    def _namespace(self) -> str:
        return str(self._launch.block.namespace or self._cluster().namespace)

    def _cluster(self) -> KubernetesCluster:
        return _connect(self._kubeconfig)


def _connect(kubeconfig: str | None) -> KubernetesCluster:
    """Raises LaunchError if no cluster is configured."""
    try:
        return kubernetes_cluster.connect(kubeconfig)
    except kubernetes_cluster.UnknownCluster as error:
        raise LaunchError(str(error)) from None


@contextmanager
def _translated_errors(allowed: int | None = None) -> Iterator[None]:
    """Raise refusals of the cluster as Unreachable or LaunchError. The status `allowed` only ends the block."""
    try:
        yield
    except kubernetes_cluster.KubernetesRefusal as error:
        if error.status is not None and error.status == allowed:
            return
        if error.status is None or error.status in TRANSIENT or error.status >= 500:
            raise Unreachable(f"the cluster {error}") from None
        raise LaunchError(f"the cluster {error}") from None


launcher: Launcher = KubernetesLauncher()

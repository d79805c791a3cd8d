"""`kubernetes`: a Job of batch/v1 in a cluster."""

import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from reconcile.ports import Launch, Launcher, LaunchError, Lost, Progress, Work
from reconcile.work import answers, errands, jobs, pods
from reconcile.work.blocks import extra_faults
from reconcile.work.errands import Unreachable
from revisions.errors import Fault

SECONDS = (10, 30)
"""To connect, and to answer."""
SECONDS_OF_SILENCE = 300
"""After which a log is asked for anew."""
AGAIN = (408, 409, 429)
"""Statuses beside 5xx that mean: not now."""

_IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class KubernetesLauncher:
    """Runs `{image, command, args, env, namespace, service_account, resources, …}` to its end, once (X-10)."""

    finds_anywhere = True

    def faults(self, spec: Any) -> list[Fault]:
        return [*extra_faults("kubernetes", "kubernetes"), *jobs.faults(spec)]

    def system(self, spec: Any) -> "Namespace":
        return Namespace(spec.get("namespace"), os.environ.get("KUBECONFIG"))

    def start(self, launch: Launch) -> Work:
        for fault in self.faults(launch.spec):
            raise LaunchError(f"kubernetes.{fault.path}: {fault.message}")
        return errands.start(launch, ClusterJob)

    def adopt(self, folder: Path) -> Work | None:
        return errands.adopt(folder, ClusterJob)


@dataclass(frozen=True, slots=True)
class Namespace:
    """Where Jobs start; None: in the controller's own namespace, and in the cluster that it runs in."""

    name: str | None
    kubeconfig: str | None

    def reach(self) -> None:
        """Looks for a Job that is not there, as somebody who may."""
        client = _client(self.kubeconfig)
        with _talking(but=404):
            client.job(self.name or client.namespace, "triggerctl-doctor")


class ClusterJob:
    """The Job of one attempt, by the calls that its RBAC lists in docs/tasks.md."""

    repeatable = True

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._name = jobs.name(launch)
        self._kubeconfig = os.environ.get("KUBECONFIG")
        self._waits = ""
        self._printing: threading.Thread | None = None

    def reach(self) -> None:
        self._client()

    def submit(self) -> None:
        """The Job, then the Secret that it owns; what is there by these names is ours."""
        job = self._create_job()
        with _talking(but=409):
            self._client().create_secret(self._namespace, jobs.secret(self._launch, job["metadata"]["uid"]))
            return
        with _talking(but=404):
            found = self._client().secret(self._namespace, self._name)
            if job["metadata"]["uid"] not in [one["uid"] for one in found["metadata"].get("ownerReferences", [])]:
                self._client().delete_secret(self._namespace, self._name)
                raise Unreachable(f"the Secret {self._name} was of an earlier Job")

    def look(self) -> Progress:
        job = pod = None
        with _talking(but=404):
            job = self._client().job(self._namespace, self._name)
        if job is None:
            return Lost(": ".join(filter(None, (pods.GONE, self._waits))))
        with _talking():
            pod = self._client().pod(self._namespace, self._name)
        self._waits = pods.waiting(pod)
        if pod and pods.has_printed(pod):
            self._follow(pod["metadata"]["name"], to_the_end=pods.ended(job) is not None)
        return pods.progress(job, pod, answers.last_line(self._launch.folder / "log"))

    def cancel(self, *, force: bool) -> None:
        """Its pod gets SIGTERM, later SIGKILL, from the cluster itself; the Job goes when the pod is gone."""
        self._delete("Foreground")

    def clean(self) -> None:
        self._delete("Background")

    def _create_job(self) -> Any:
        with _talking(but=409):
            return self._client().create_job(self._namespace, jobs.job(self._launch))
        with _talking(but=404):
            found = self._client().job(self._namespace, self._name)
            if "deletionTimestamp" not in found["metadata"]:
                return found
        raise Unreachable(f"the Job {self._name} of an earlier start is still being deleted")

    def _delete(self, propagation: str) -> None:
        with _talking(but=404):
            self._client().delete_job(self._namespace, self._name, propagation)

    def _follow(self, pod: str, *, to_the_end: bool) -> None:
        """Copies the log from a thread while the work runs; what that missed is read when it is over."""
        if self._printing is None:
            arguments = (pod, True)
            self._printing = threading.Thread(target=self._copy_log, args=arguments, name=f"log {pod}", daemon=True)
            self._printing.start()
        elif not self._printing.is_alive() and not to_the_end:
            self._printing = None
        if to_the_end and self._printing:
            self._printing.join(SECONDS[1])
            self._copy_log(pod, False)

    def _copy_log(self, pod: str, follow: bool) -> None:
        """What the file has not yet; a log is read from its beginning, there is no other way.

        Each byte has its place, so that it does no harm when an earlier controller still copies, too.
        """
        with suppress(Unreachable, LaunchError, OSError), _talking(but=404):
            descriptor = os.open(self._launch.folder / "log", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                position = 0
                for chunk in self._client().log(self._namespace, pod, follow):
                    known = min(max(0, os.fstat(descriptor).st_size - position), len(chunk))
                    os.pwrite(descriptor, chunk[known:], position + known)
                    position += len(chunk)
            finally:
                os.close(descriptor)

    @property
    def _namespace(self) -> str:
        return str(self._launch.spec.get("namespace") or self._client().namespace)

    def _client(self) -> "Client":
        return _client(self._kubeconfig)


def _client(kubeconfig: str | None) -> "Client":
    """Raises LaunchError where no cluster is known."""
    from kubernetes.config import ConfigException

    try:
        return _connected(kubeconfig)
    except (ConfigException, OSError) as error:
        raise LaunchError(f"knows no cluster: {error}; set KUBECONFIG, or run in one") from None


@contextmanager
def _talking(but: int | None = None) -> Iterator[None]:
    """Turns the client's errors into ours; a status of `but` is no error, and ends the block."""
    from kubernetes.client import ApiException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ApiException as error:
        if error.status == but:
            return
        said = f"the cluster answered {error.status} {error.reason}: {_message(error.body)}"
        if error.status in AGAIN or not error.status or error.status >= 500:
            raise Unreachable(said) from None
        raise LaunchError(said) from None
    except HTTPError as error:
        raise Unreachable(f"the cluster cannot be reached: {error}") from None


class Client:
    """The calls, with plain objects: the official client's models take longer to read than what they hold."""

    def __init__(self, kubeconfig: str | None) -> None:
        from kubernetes import client
        from kubernetes import config as untyped

        config: Any = untyped
        configuration = client.Configuration()
        self.namespace = "default"
        if kubeconfig is None and "KUBERNETES_SERVICE_HOST" in os.environ:
            config.load_incluster_config(client_configuration=configuration)
            self.namespace = _IN_CLUSTER.read_text().strip()
        else:
            config.load_kube_config(kubeconfig, client_configuration=configuration)
            context = config.list_kube_config_contexts(kubeconfig)[1]
            self.namespace = context["context"].get("namespace", "default")
        api = client.ApiClient(configuration)
        self._batch: Any = client.BatchV1Api(api)  # what the models say of its answers is not true of plain ones
        self._core: Any = client.CoreV1Api(api)
        self._plain: dict[str, Any] = {"_preload_content": False, "_request_timeout": SECONDS}

    def create_job(self, namespace: str, body: Mapping[str, Any]) -> Any:
        return self._read(self._batch.create_namespaced_job(namespace, body, **self._plain))

    def job(self, namespace: str, name: str) -> Any:
        return self._read(self._batch.read_namespaced_job(name, namespace, **self._plain))

    def delete_job(self, namespace: str, name: str, propagation: str) -> None:
        self._read(self._batch.delete_namespaced_job(name, namespace, propagation_policy=propagation, **self._plain))

    def create_secret(self, namespace: str, body: Mapping[str, Any]) -> None:
        self._read(self._core.create_namespaced_secret(namespace, body, **self._plain))

    def secret(self, namespace: str, name: str) -> Any:
        return self._read(self._core.read_namespaced_secret(name, namespace, **self._plain))

    def delete_secret(self, namespace: str, name: str) -> None:
        self._read(self._core.delete_namespaced_secret(name, namespace, **self._plain))

    def pod(self, namespace: str, job: str) -> Any:
        """The newest pod of a Job, None while there is none."""
        selector = f"batch.kubernetes.io/job-name={job}"
        found = self._read(self._core.list_namespaced_pod(namespace, label_selector=selector, **self._plain))
        return max(found["items"], key=lambda pod: pod["metadata"]["creationTimestamp"], default=None)

    def log(self, namespace: str, pod: str, follow: bool) -> Iterator[bytes]:
        plain = self._plain | {"_request_timeout": (SECONDS[0], SECONDS_OF_SILENCE)}
        answer = self._core.read_namespaced_pod_log(pod, namespace, container=jobs.CONTAINER, follow=follow, **plain)
        try:
            yield from answer.stream(2**16)
        finally:
            answer.close()

    @staticmethod
    def _read(answer: Any) -> Any:
        try:
            return json.loads(answer.data)
        finally:
            answer.release_conn()


_connected = cache(Client)


def _message(body: Any) -> str:
    """What a Status object says."""
    with suppress(ValueError, TypeError, KeyError):
        return str(json.loads(body)["message"])
    return str(body)[:300]


launcher: Launcher = KubernetesLauncher()

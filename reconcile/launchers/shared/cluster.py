"""The cluster that work and secrets lie in, by the official client (extra `kubernetes`): which it is, and the calls.

It is the one that `KUBECONFIG` names; without that, in a pod, the one around it; else the one of the user's own file.
"""

import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from reconcile.launchers.shared import kubernetes_job
from reconcile.launchers.shared.kubernetes_watch import JobWatch

SECONDS = (10, 30)
"""To connect, and to answer."""
SECONDS_OF_SILENCE = 300
"""After which a log is asked for anew."""
SECONDS_TO_WATCH = 300
"""After which the cluster ends a stream of changes, and another begins."""

_OWN = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class KubernetesRefusal(Exception):
    """What the cluster answered; `status` None: it knows none, or it cannot be reached, which the text says.

    `short` leaves the answer's own words out, for those who may not repeat them.
    """

    def __init__(self, short: str, status: int | None = None, said: str = "") -> None:
        super().__init__(": ".join(filter(None, (short, said))))
        self.short = short
        self.status = status


class UnknownCluster(Exception):
    """There is no cluster to ask; the text says why and what to do."""


def named() -> str | None:
    """The file that says which cluster; None: the one around this pod, or the user's own file."""
    return os.environ.get("KUBECONFIG") or None


def connected(kubeconfig: str | None) -> "KubernetesCluster":
    """One for each cluster and process. Raises Unknown."""
    with _CONNECTING:
        return _connected(kubeconfig)


class KubernetesCluster:
    """The calls, with plain objects: the official client's models take longer to read than what they hold.

    Each raises Refused, for an answer that is none, and is asked once: who calls knows what another try is worth.
    """

    def __init__(self, kubeconfig: str | None) -> None:
        try:
            from kubernetes import client
        except ImportError:
            raise UnknownCluster("needs the client: pip install 'triggerctl[kubernetes]'") from None
        configuration = client.Configuration()
        configuration.retries = 0
        try:
            self.namespace = _configured(configuration, kubeconfig)
        except Exception as error:  # noqa: BLE001 - the client lets through whatever its files make it raise
            raise UnknownCluster(f"knows no cluster: {error}; set KUBECONFIG, or run in one") from None
        api = client.ApiClient(configuration)
        self._batch: Any = client.BatchV1Api(api)  # what the models say of its answers is not true of plain ones
        self._core: Any = client.CoreV1Api(api)
        self._watches: dict[str, JobWatch] = {}
        self._watching = threading.Lock()

    def create_job(self, namespace: str, body: Mapping[str, Any]) -> Any:
        return self._ask(self._batch.create_namespaced_job, namespace, body)

    def job(self, namespace: str, name: str) -> Any:
        return self._ask(self._batch.read_namespaced_job, name, namespace)

    def delete_job(self, namespace: str, name: str, uid: str, propagation: str) -> None:
        """Answers 409 where the name is another Job's by now."""
        how = {"propagationPolicy": propagation, "preconditions": {"uid": uid}}
        self._ask(self._batch.delete_namespaced_job, name, namespace, body=how)

    def create_secret(self, namespace: str, body: Mapping[str, Any]) -> None:
        self._ask(self._core.create_namespaced_secret, namespace, body)

    def secret(self, namespace: str, name: str, *, seconds: float = SECONDS[1]) -> Any:
        return self._ask(self._core.read_namespaced_secret, name, namespace, seconds=seconds)

    def delete_secret(self, namespace: str, name: str) -> None:
        self._ask(self._core.delete_namespaced_secret, name, namespace)

    def pod(self, namespace: str, job: str) -> Any:
        """The newest pod of a Job, None while there is none."""
        found = self._ask(
            self._core.list_namespaced_pod, namespace, label_selector=f"batch.kubernetes.io/job-name={job}"
        )
        return max(found.get("items") or (), key=lambda pod: pod["metadata"]["creationTimestamp"], default=None)

    def log(self, namespace: str, pod: str, follow: bool) -> Iterator[bytes]:
        how = {"_preload_content": False, "_request_timeout": (SECONDS[0], SECONDS_OF_SILENCE)}
        with _translated():
            answer = self._core.read_namespaced_pod_log(
                pod, namespace, container=kubernetes_job.CONTAINER, follow=follow, **how
            )
            try:
                yield from answer.stream(2**16)
            finally:
                answer.close()

    def watch(self, namespace: str) -> JobWatch:
        """What it tells of our Jobs there; one for all who ask."""
        with self._watching:
            return self._watches.setdefault(namespace, JobWatch(namespace, lambda: self._changes(namespace)))

    def _changes(self, namespace: str) -> Iterator[str]:
        """The names of our Jobs, first of those that are there, then of each that has changed, until it breaks off."""
        from kubernetes import watch as untyped

        watch: Any = untyped
        stream = watch.Watch("object")  # of plain ones, again
        how = {"timeout_seconds": SECONDS_TO_WATCH, "_request_timeout": (SECONDS[0], SECONDS_TO_WATCH + SECONDS[1])}
        with _translated():
            for event in stream.stream(
                self._batch.list_namespaced_job, namespace, label_selector=kubernetes_job.OURS, **how
            ):
                if event:
                    yield event["object"]["metadata"]["name"]

    @staticmethod
    def _ask(call: Any, *arguments: Any, seconds: float = SECONDS[1], **options: Any) -> Any:
        timeout = (min(SECONDS[0], seconds), seconds)
        with _translated():
            answer = call(*arguments, **options, _preload_content=False, _request_timeout=timeout)
            try:
                return _object(answer.data)
            finally:
                answer.release_conn()


def _configured(configuration: Any, kubeconfig: str | None) -> str:
    """Says where and as whom to ask, and answers the namespace one is in there."""
    from kubernetes import config as untyped

    config: Any = untyped
    if kubeconfig is None and "KUBERNETES_SERVICE_HOST" in os.environ:
        config.load_incluster_config(client_configuration=configuration)
        return _OWN.read_text().strip()
    config.load_kube_config(kubeconfig, client_configuration=configuration)
    context = config.list_kube_config_contexts(kubeconfig)[1]
    return str(context["context"].get("namespace", "default"))


@contextmanager
def _translated() -> Iterator[None]:
    from kubernetes.client import ApiException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ApiException as error:
        raise KubernetesRefusal(
            f"answered {error.status} {error.reason}", error.status or None, _message(error.body)
        ) from None
    except (HTTPError, OSError, ValueError) as error:  # ValueError: no JSON object
        raise KubernetesRefusal(f"cannot be reached: {error}") from None


def _object(text: bytes) -> dict[str, Any]:
    """Raises ValueError for anything else, as it comes from something that stands in between."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("its answer is no object")
    return found


def _message(body: Any) -> str:
    """What a Status object says."""
    with suppress(ValueError, TypeError, KeyError):
        return str(json.loads(body)["message"])
    return str(body or "")[:300]


_CONNECTING = threading.Lock()
_connected = cache(KubernetesCluster)

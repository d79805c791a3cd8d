"""Calls to a Kubernetes cluster through the official client (extra `kubernetes`), and a shared watch of its Jobs.

The cluster is the one that `KUBECONFIG` names; without it, in a pod, the pod's own; else the one of `~/.kube/config`.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from reconcile.launchers.shared import kubernetes_job
from reconcile.launchers.shared.kubernetes_job import CONTAINER

SECONDS = (10, 30)
"""Timeouts to connect and to answer."""
SECONDS_OF_SILENCE = 300
"""Timeout between two pieces of a log."""
SECONDS_TO_WATCH = 300
"""Time after which the cluster ends a watch, and another begins."""
WATCH_PAUSES = (1.0, 30.0)
"""Shortest and longest pause between two watches, seconds; it doubles after each watch shorter than the longest."""

_OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class KubernetesRefusal(Exception):
    """The cluster refused a call or cannot be reached.

    `status` is the HTTP status, None if there was no usable response. `short` leaves out the response's own text, for
    callers who must not repeat it.
    """

    def __init__(self, short: str, status: int | None = None, message: str = "") -> None:
        super().__init__(": ".join(filter(None, (short, message))))
        self.short = short
        self.status = status


class UnknownCluster(Exception):
    """No cluster is configured; the text says why and what to do."""


def kubeconfig_path() -> str | None:
    """Return the value of `KUBECONFIG`, None if it is not set."""
    return os.environ.get("KUBECONFIG") or None


def connect(kubeconfig: str | None) -> "KubernetesCluster":
    """Return the connection to a cluster; one per cluster and process. Raises UnknownCluster."""
    with _CONNECTING:
        return _connect(kubeconfig)


class KubernetesCluster:
    """Calls to one cluster.

    Objects are plain dicts: building the official client's models takes longer than the calls themselves. A call is
    made once and raises KubernetesRefusal; callers decide whether to repeat it.
    """

    def __init__(self, kubeconfig: str | None) -> None:
        try:
            from kubernetes import client
        except ImportError:
            raise UnknownCluster("needs the client: pip install 'triggerctl[kubernetes]'") from None
        configuration = client.Configuration()
        configuration.retries = 0
        try:
            self.namespace = _configure(configuration, kubeconfig)
        except Exception as error:  # noqa: BLE001 - the client lets through whatever reading its files raises
            raise UnknownCluster(f"knows no cluster: {error}; set KUBECONFIG, or run in one") from None
        api = client.ApiClient(configuration)
        self._batch: Any = client.BatchV1Api(api)  # Any: the client's annotations are wrong for undecoded responses
        self._core: Any = client.CoreV1Api(api)
        self._watches: dict[str, JobWatch] = {}
        self._watching = threading.Lock()

    def create_job(self, namespace: str, body: Mapping[str, Any]) -> Any:
        return self._call(self._batch.create_namespaced_job, namespace, body)

    def job(self, namespace: str, name: str) -> Any:
        return self._call(self._batch.read_namespaced_job, name, namespace)

    def delete_job(self, namespace: str, name: str, uid: str, propagation: str) -> None:
        """Delete a Job by name and uid. The cluster answers 409 if another Job has the name now."""
        options = {"propagationPolicy": propagation, "preconditions": {"uid": uid}}
        self._call(self._batch.delete_namespaced_job, name, namespace, body=options)

    def create_secret(self, namespace: str, body: Mapping[str, Any]) -> None:
        self._call(self._core.create_namespaced_secret, namespace, body)

    def secret(self, namespace: str, name: str, *, seconds: float = SECONDS[1]) -> Any:
        return self._call(self._core.read_namespaced_secret, name, namespace, seconds=seconds)

    def delete_secret(self, namespace: str, name: str) -> None:
        self._call(self._core.delete_namespaced_secret, name, namespace)

    def pod(self, namespace: str, job: str) -> Any:
        """Return the newest pod of a Job, None if there is none yet."""
        pods = self._call(
            self._core.list_namespaced_pod, namespace, label_selector=f"batch.kubernetes.io/job-name={job}"
        )
        return max(pods.get("items") or (), key=lambda pod: pod["metadata"]["creationTimestamp"], default=None)

    def log(self, namespace: str, pod: str, follow: bool) -> Iterator[bytes]:
        """Yield the log of a pod from its beginning; with `follow` until the container ends."""
        timeout = (SECONDS[0], SECONDS_OF_SILENCE)
        with _translated_errors():
            response = self._core.read_namespaced_pod_log(
                pod, namespace, container=CONTAINER, follow=follow, _preload_content=False, _request_timeout=timeout
            )
            try:
                yield from response.stream(2**16)
            finally:
                response.close()

    def watch(self, namespace: str) -> "JobWatch":
        """Return the watch of a namespace, shared by all attempts there."""
        with self._watching:
            return self._watches.setdefault(namespace, JobWatch(namespace, lambda: self._changes(namespace)))

    def _changes(self, namespace: str) -> Iterator[str]:
        """Yield the names of our Jobs: of all existing ones, then of each that changes, until the stream ends."""
        from kubernetes import watch as untyped

        watch: Any = untyped
        stream = watch.Watch("object")  # "object": plain dicts
        options = {"timeout_seconds": SECONDS_TO_WATCH, "_request_timeout": (SECONDS[0], SECONDS_TO_WATCH + SECONDS[1])}
        with _translated_errors():
            for event in stream.stream(
                self._batch.list_namespaced_job, namespace, label_selector=kubernetes_job.OURS, **options
            ):
                if event:
                    yield event["object"]["metadata"]["name"]

    @staticmethod
    def _call(method: Any, *arguments: Any, seconds: float = SECONDS[1], **options: Any) -> Any:
        timeout = (min(SECONDS[0], seconds), seconds)
        with _translated_errors():
            response = method(*arguments, **options, _preload_content=False, _request_timeout=timeout)
            try:
                return _parse_object(response.data)
            finally:
                response.release_conn()


class JobWatch:
    """Watch of the Jobs in one namespace, shared by all attempts there.

    It only wakes an attempt by its Job's name; the attempt then reads the Job. So a report that is late, doubled or
    lost does no harm, and after a broken stream the watch simply begins anew. `stream` yields names until it ends or
    raises anything; the first names are those of all existing Jobs. The thread lives while somebody waits, and until
    the stream ends after that.
    """

    def __init__(self, namespace: str, stream: Callable[[], Iterator[str]]) -> None:
        self._namespace = namespace
        self._stream = stream
        self._lock = threading.Lock()
        self._waiting: set[tuple[str, Callable[[], None]]] = set()
        self._thread: threading.Thread | None = None
        self._is_live = False

    def join(self, name: str, wake: Callable[[], None]) -> bool:
        """Call `wake` from now on when the Job may have changed. Returns whether the stream works at the moment.

        Can be called repeatedly.
        """
        with self._lock:
            self._waiting.add((name, wake))
            if self._thread is None:
                thread = threading.Thread(target=self._follow, name=f"watch {self._namespace}", daemon=True)
                # Started before it is kept, so that a start that fails is tried again. The thread's first check needs
                # the lock and so runs after the assignment.
                thread.start()
                self._thread = thread
            return self._is_live

    def leave(self, name: str, wake: Callable[[], None]) -> None:
        with self._lock:
            self._waiting.discard((name, wake))

    def _follow(self) -> None:
        shortest, longest = WATCH_PAUSES
        pause = shortest
        while self._is_needed():
            started = time.monotonic()
            with suppress(Exception):  # whatever is wrong with the stream: attempts poll by themselves meanwhile
                for name in self._stream():
                    self._report(name)
            self._report_end()
            if time.monotonic() - started > longest:
                pause = shortest
            time.sleep(pause)
            pause = min(pause * 2, longest)

    def _is_needed(self) -> bool:
        """Decide and clear `_thread` under one lock, so that `join` either keeps this thread or starts another."""
        with self._lock:
            if not self._waiting:
                self._thread = None
            return self._thread is not None

    def _report(self, name: str) -> None:
        with self._lock:
            self._is_live = True
            wakes = [wake for job, wake in self._waiting if job == name]
        for wake in wakes:
            wake()

    def _report_end(self) -> None:
        """Wake all attempts, so that they poll by themselves until the next stream."""
        with self._lock:
            self._is_live = False
            wakes = [wake for _, wake in self._waiting]
        for wake in wakes:
            wake()


def _configure(configuration: Any, kubeconfig: str | None) -> str:
    """Set the cluster's address and credentials, and return the namespace to use by default."""
    from kubernetes import config as untyped

    config: Any = untyped
    if kubeconfig is None and "KUBERNETES_SERVICE_HOST" in os.environ:
        config.load_incluster_config(client_configuration=configuration)
        return _OWN_NAMESPACE.read_text().strip()
    config.load_kube_config(kubeconfig, client_configuration=configuration)
    context = config.list_kube_config_contexts(kubeconfig)[1]
    return str(context["context"].get("namespace", "default"))


@contextmanager
def _translated_errors() -> Iterator[None]:
    from kubernetes.client import ApiException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ApiException as error:
        raise KubernetesRefusal(
            f"answered {error.status} {error.reason}", error.status or None, _status_message(error.body)
        ) from None
    except (HTTPError, OSError, ValueError) as error:  # ValueError: no JSON object
        raise KubernetesRefusal(f"cannot be reached: {error}") from None


def _parse_object(text: bytes) -> dict[str, Any]:
    """Return a JSON object. Raises ValueError for anything else, such as the error page of a proxy."""
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("its answer is no object")
    return value


def _status_message(body: Any) -> str:
    """Return the message of a Status object, else the beginning of the body."""
    with suppress(ValueError, TypeError, KeyError):
        return str(json.loads(body)["message"])
    return str(body or "")[:300]


_CONNECTING = threading.Lock()
"""Held while connecting, so that two threads do not make two connections, each with its own watches."""
_connect = cache(KubernetesCluster)

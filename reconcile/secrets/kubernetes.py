"""`kubernetes`: Secret objects of one namespace, read through the API (extra `kubernetes`)."""

import base64
import os
from pathlib import Path
from typing import Any

from reconcile.ports import SecretPlaces, SecretSource, SecretUnreadable

OBJECT = "triggerctl"
"""Every Secret object that is read is called so, or begins so: no scope can name another."""
SECONDS = 5.0
"""How long one answer may take: the worker waits for it."""

_OWN = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class KubernetesSource:
    """The key `<name>` of the object `triggerctl`, and of `triggerctl-<scope>`.

    Asks where `KUBECONFIG` says; without it as the pod's own service account, and outside of pods where the user's own
    file says.
    """

    def place(self, places: SecretPlaces, scope: str | None, name: str) -> str:
        return f"key {name} of {_namespace(places)}/{_object(scope)}"

    def read(self, places: SecretPlaces, scope: str | None, name: str) -> str | None:
        if scope and "_" in scope:
            return None  # no object can be called so
        data = _data(_namespace(places), _object(scope))
        if name not in data:
            return None
        try:
            return base64.b64decode(data[name]).decode()
        except UnicodeDecodeError:
            raise SecretUnreadable(f"{self.place(places, scope, name)} is not UTF-8") from None


def _object(scope: str | None) -> str:
    return f"{OBJECT}-{scope}" if scope else OBJECT


def _namespace(places: SecretPlaces) -> str:
    if places.namespace:
        return places.namespace
    return _OWN.read_text().strip() if _OWN.exists() else "default"


def _data(namespace: str, name: str) -> dict[str, str]:
    """What an object holds, still encoded; nothing where there is no such object."""
    try:
        from kubernetes import client, config
        from kubernetes.client.exceptions import ApiException
    except ImportError:
        raise SecretUnreadable("needs the client: pip install 'triggerctl[kubernetes]'") from None
    where = f"{namespace}/{name}"
    try:
        configuration = client.Configuration()
        configuration.retries = 0  # the run's own attempts are enough, and the worker waits
        if _OWN.exists() and not os.environ.get("KUBECONFIG"):
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        else:
            named = os.environ.get("KUBECONFIG") or None
            config.load_kube_config(config_file=named, client_configuration=configuration)  # type: ignore[no-untyped-call]
        with client.ApiClient(configuration) as api:
            found: Any = client.CoreV1Api(api).read_namespaced_secret(name, namespace, _request_timeout=SECONDS)
    except ApiException as error:
        if error.status == 404:
            return {}
        raise SecretUnreadable(f"{where} cannot be read: {error.status} {error.reason}") from None
    except Exception as error:  # noqa: BLE001 - the client lets through what its HTTP library and its files raise
        raise SecretUnreadable(f"{where} cannot be read: {type(error).__name__}") from None
    return found.data or {}


source: SecretSource = KubernetesSource()

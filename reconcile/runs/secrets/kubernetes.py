"""Secret source `kubernetes`: Secret objects of one namespace, read through the API (extra `kubernetes`)."""

import base64
from contextlib import suppress

from reconcile.launchers.shared import kubernetes_cluster
from reconcile.plugins import SecretPlaces, SecretSource, SecretUnreadable

OBJECT = "triggerctl"
"""Name, or beginning of the name, of every Secret object that is read: no scope can reach another one."""
SECONDS = 5.0
"""Timeout of one request; a launch waits for it."""


class KubernetesSource:
    """Reads key `<name>` of the object `triggerctl`, and of `triggerctl-<scope>` with a scope.

    The cluster is the one in which Jobs run too.
    """

    def place(self, places: SecretPlaces, scope: str | None, name: str) -> str:
        namespace = places.namespace
        with suppress(kubernetes_cluster.UnknownCluster):
            namespace = namespace or kubernetes_cluster.connect(kubernetes_cluster.kubeconfig_path()).namespace
        return f"key {name} of {namespace or 'default'}/{_object(scope)}"

    def read(self, places: SecretPlaces, scope: str | None, name: str) -> str | None:
        if scope and "_" in scope:
            return None  # an object's name cannot contain it
        data = _data(places.namespace, _object(scope))
        if name not in data:
            return None
        try:
            return base64.b64decode(data[name]).decode()
        except UnicodeDecodeError:
            raise SecretUnreadable(f"{self.place(places, scope, name)} is not UTF-8") from None


def _object(scope: str | None) -> str:
    return f"{OBJECT}-{scope}" if scope else OBJECT


def _data(namespace: str | None, name: str) -> dict[str, str]:
    """Return the base64-encoded values of an object by key; empty when there is no such object."""
    try:
        connected = kubernetes_cluster.connect(kubernetes_cluster.kubeconfig_path())
        secret = connected.secret(namespace or connected.namespace, name, seconds=SECONDS)
    except kubernetes_cluster.UnknownCluster as error:
        raise SecretUnreadable(str(error)) from None
    except kubernetes_cluster.KubernetesRefusal as error:
        if error.status == 404:
            return {}
        raise SecretUnreadable(f"{name} cannot be read: the cluster {error.short}") from None
    return secret.get("data") or {}


source: SecretSource = KubernetesSource()

"""`kubernetes`: Secret objects of one namespace, read through the API (extra `kubernetes`)."""

import base64
from contextlib import suppress

from reconcile.launchers.shared import kubernetes_cluster
from reconcile.protocols import SecretPlaces, SecretSource, SecretUnreadable

OBJECT = "triggerctl"
"""Every Secret object that is read is called so, or begins so: no scope can name another."""
SECONDS = 5.0
"""How long one answer may take: the worker waits for it."""


class KubernetesSource:
    """The key `<name>` of the object `triggerctl`, and of `triggerctl-<scope>`, in the cluster where Jobs run, too."""

    def place(self, places: SecretPlaces, scope: str | None, name: str) -> str:
        namespace = places.namespace
        with suppress(kubernetes_cluster.UnknownCluster):
            namespace = namespace or kubernetes_cluster.connect(kubernetes_cluster.kubeconfig_path()).namespace
        return f"key {name} of {namespace or 'default'}/{_object(scope)}"

    def read(self, places: SecretPlaces, scope: str | None, name: str) -> str | None:
        if scope and "_" in scope:
            return None  # no object can be called so
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
    """What an object holds, still encoded; nothing where there is no such object."""
    try:
        here = kubernetes_cluster.connect(kubernetes_cluster.kubeconfig_path())
        found = here.secret(namespace or here.namespace, name, seconds=SECONDS)
    except kubernetes_cluster.UnknownCluster as error:
        raise SecretUnreadable(str(error)) from None
    except kubernetes_cluster.KubernetesRefusal as error:
        if error.status == 404:
            return {}
        raise SecretUnreadable(f"{name} cannot be read: the cluster {error.short}") from None
    return found.get("data") or {}


source: SecretSource = KubernetesSource()

"""Every value of the chart: its path, its default and an example that changes what is rendered."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from revisions.spec import documents
from tests.chart.modes import ON_POSTGRESQL, SPLIT
from tests.chart.objects import CHART, at, merged

SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
[DEFAULTS] = documents.load((CHART / "values.yaml").read_text(), "values.yaml")


def described(schema: Mapping[str, Any] = SCHEMA, path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (path, schema) of every value. A part that Kubernetes or the controller defines counts as one value."""
    for name, part in schema["properties"].items():
        value_path = f"{path}{name}"
        if "properties" in part and value_path != "settings":
            yield from described(part, f"{value_path}.")
        elif value_path != "global":  # Helm's own, for subcharts
            yield value_path, part


PATHS = [path for path, _ in described()]


def default(path: str) -> Any:
    """Return the default in values.yaml."""
    value = DEFAULTS
    for name in path.split("."):
        value = value[name]
    return value


_INGRESS = {"ingress": {"enabled": True, "host": "a.example.com"}}
_POLICY = {"networkPolicy": {"enabled": True}}
_GRANTS = {"platform": "admin"}
_OIDC = {"access": {"oidc": {"issuer": "https://login.example.com", "audience": "triggerctl", "grants": _GRANTS}}}
_MONITOR = {"metrics": {"serviceMonitor": {"enabled": True, "tokenSecret": "scraping"}}}
_RULE = {"metrics": {"prometheusRule": {"enabled": True}}}
_DASHBOARDS = {"metrics": {"dashboards": {"enabled": True}}}
_JOBS = {"launchers": {"kubernetes": {"enabled": True}}}
_SIGNED = {"checkpoints": {"existingSecret": "signing"}}
_SECRETS = {"taskSecrets": {"kubernetes": {"enabled": True}}}
_RESOURCES = {"requests": {"cpu": 2}}
_RULES = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]
_LABELS = {"a": "b"}

_EXAMPLES: dict[str, tuple[Any, Mapping[str, Any]]] = {
    "nameOverride": ("other", {}),
    "fullnameOverride": ("other", {}),
    "labels": (_LABELS, {}),
    "image.repository": ("registry.example.com/other", {}),
    "image.tag": ("2.0", {}),
    "image.digest": ("sha256:" + "a" * 64, {}),
    "image.pullPolicy": ("Always", {}),
    "imagePullSecrets": ([{"name": "pull"}], {}),
    "replicaCount": (3, ON_POSTGRESQL),
    "split.enabled": (True, ON_POSTGRESQL),
    "split.apiReplicaCount": (5, SPLIT),
    "split.apiResources": (_RESOURCES, SPLIT),
    "database.type": ("postgresql", {"database": {"postgresql": {"existingSecret": "db"}}}),
    "database.sqlite.existingClaim": ("old", {}),
    "database.sqlite.size": ("1Ti", {}),
    "database.sqlite.storageClass": ("fast", {}),
    "database.sqlite.keep": (False, {}),
    "database.postgresql.existingSecret": ("other", ON_POSTGRESQL),
    "database.postgresql.urlKey": ("uri", ON_POSTGRESQL),
    "database.postgresql.listenUrlKey": ("direct", ON_POSTGRESQL),
    "migrations.enabled": (False, ON_POSTGRESQL),
    "migrations.timeoutSeconds": (30, ON_POSTGRESQL),
    "migrations.annotations": (_LABELS, ON_POSTGRESQL),
    "migrations.resources": (_RESOURCES, ON_POSTGRESQL),
    "baseline": ("now", ON_POSTGRESQL),
    "controller.enabled": (False, {}),
    "controller.executionQps": (0.5, {}),
    "controller.executionBurst": (7, {}),
    "controller.resyncInterval": ("5s", {}),
    "controller.liveGrace": ("1.5h", {}),
    "controller.maxCatchupRunsPerLoop": (0, {}),
    "controller.maxRunning": (1000000, {}),
    "controller.leaseSeconds": (90, {}),
    "controller.stopGrace": ("5m", {}),
    "controller.taskRoot": ("/tasks", {}),
    "controller.logLevel": ("debug", {}),
    "controller.logFormat": ("text", {}),
    "access.oidc.issuer": (
        "https://login.example.com",
        {"access": {"oidc": {"audience": "triggerctl", "grants": _GRANTS}}},
    ),
    "access.oidc.audience": ("other", _OIDC),
    "access.oidc.actorClaim": ("email", _OIDC),
    "access.oidc.claim": ("roles", _OIDC),
    "access.oidc.grants": ({"platform": "admin", "client-7": "operator:acme"}, _OIDC),
    "access.oidc.remember": ("1d", _OIDC),
    "settings": ({"checkpoint_public_key": "cHVibGlj"}, {}),
    "url": ("https://a.example.com", {}),
    "taskSecrets.existingSecret": ("secrets", {}),
    "taskSecrets.scopes": ({"client-7": {"existingSecret": "client-7", "keys": ["GA_TOKEN"]}}, {}),
    "taskSecrets.kubernetes.enabled": (True, {}),
    "taskSecrets.kubernetes.namespace": ("other", _SECRETS),
    "taskSecrets.kubernetes.scopes": (["client-7"], _SECRETS),
    "checkpoints.existingSecret": ("signing", {}),
    "checkpoints.key": ("other.key", _SIGNED),
    "launchers.kubernetes.enabled": (True, {}),
    "launchers.kubernetes.namespaces": (["one", "two"], _JOBS),
    "launchers.extraRules": (_RULES, {}),
    "launchers.extraClusterRules": (_RULES, {}),
    "serviceAccount.create": (False, {}),
    "serviceAccount.name": ("other", {}),
    "serviceAccount.annotations": (_LABELS, {}),
    "service.type": ("NodePort", {}),
    "service.port": (8080, {}),
    "service.annotations": (_LABELS, {}),
    "ingress.enabled": (True, {"ingress": {"host": "a.example.com"}}),
    "ingress.className": ("nginx", _INGRESS),
    "ingress.host": ("b.example.com", _INGRESS),
    "ingress.tlsSecret": ("tls", _INGRESS),
    "ingress.trustedProxies": (["10.1.0.0/28"], {}),
    "ingress.annotations": (_LABELS, _INGRESS),
    "networkPolicy.enabled": (True, {}),
    "networkPolicy.from": ([{"ipBlock": {"cidr": "10.0.0.0/8"}}], _POLICY),
    "networkPolicy.restrictEgress": (True, _POLICY),
    "networkPolicy.egress": ([{"ports": [{"port": 5432}]}], merged(_POLICY, at("networkPolicy.restrictEgress", True))),
    "podDisruptionBudget.enabled": (False, {}),
    "podDisruptionBudget.maxUnavailable": ("50%", {}),
    "metrics.serviceMonitor.enabled": (True, {"metrics": {"serviceMonitor": {"tokenSecret": "scraping"}}}),
    "metrics.serviceMonitor.interval": ("1m", _MONITOR),
    "metrics.serviceMonitor.scrapeTimeout": ("5s", _MONITOR),
    "metrics.serviceMonitor.labels": (_LABELS, _MONITOR),
    "metrics.serviceMonitor.tokenSecret": ("other", _MONITOR),
    "metrics.serviceMonitor.tokenKey": ("other", _MONITOR),
    "metrics.prometheusRule.enabled": (True, {}),
    "metrics.prometheusRule.labels": (_LABELS, _RULE),
    "metrics.prometheusRule.runbooks": ("https://docs.example.com/triggerctl/runbooks", _RULE),
    "metrics.dashboards.enabled": (True, {}),
    "metrics.dashboards.labels": (_LABELS, _DASHBOARDS),
    "metrics.dashboards.annotations": (_LABELS, _DASHBOARDS),
    "resources": (_RESOURCES, {}),
    "podAnnotations": (_LABELS, {}),
    "podLabels": (_LABELS, {}),
    "podSecurityContext": ({"runAsUser": 4711}, {}),
    "securityContext": ({"privileged": False}, {}),
    "topologySpread.enabled": (False, {}),
    "topologySpread.keys": (["rack"], {}),
    "topologySpread.whenUnsatisfiable": ("DoNotSchedule", {}),
    "nodeSelector": (_LABELS, {}),
    "tolerations": ([{"operator": "Exists"}], {}),
    "affinity": ({"podAntiAffinity": {}}, {}),
    "priorityClassName": ("high", {}),
    "workVolume.existingClaim": ("shared", ON_POSTGRESQL),
    "workVolume.sizeLimit": ("5Gi", ON_POSTGRESQL),
    "tmpVolume.sizeLimit": ("1Gi", {}),
    "extraEnv": ([{"name": "LANG", "value": "C.UTF-8"}], {}),
    "extraEnvFrom": ([{"secretRef": {"name": "tasks"}}], {}),
    "extraVolumes": ([{"name": "tasks", "persistentVolumeClaim": {"claimName": "tasks"}}], {}),
    "extraVolumeMounts": ([{"name": "tmp", "mountPath": "/tasks"}], {}),
    "preStopSeconds": (0, {}),
}


def example(path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (values without an example, the same values with it).

    For two values that are required together, both are missing in the first.
    """
    value, others = _EXAMPLES[path]
    without = {} if path in ("database.type", "access.oidc.issuer") else dict(others)
    return without, merged(others, at(path, value))

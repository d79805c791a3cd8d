"""Installation modes: those in the chart's README and one that uses every value. Each is rendered once."""

from typing import Any

from revisions.spec import documents
from tests.chart.objects import CHART, Rendered, merged, render
from tests.docs import pages

README = (CHART / "README.md").read_text(encoding="utf-8")
SQLITE, POSTGRESQL, SPLIT, OIDC = (documents.load(block)[0] for block in pages.blocks(README, "yaml"))
"""Values files of the README, in its order: three installations and OpenID Connect on top of one of them."""

ON_POSTGRESQL = {"database": {"type": "postgresql", "postgresql": {"existingSecret": "triggerctl-database"}}}
EVERYTHING = {
    "labels": {"team": "data"},
    "image": {"digest": "sha256:" + "0" * 64},
    "imagePullSecrets": [{"name": "pull"}],
    "settings": {"checkpoint_public_key": "cHVibGlj"},
    "controller": {"taskRoot": "/tasks"},
    **OIDC,
    "url": "https://triggers.example.com",
    "taskSecrets": {
        "existingSecret": "secrets",
        "scopes": {"client-7": {"existingSecret": "of-client-7", "keys": ["GA_TOKEN"]}},
        "kubernetes": {"enabled": True, "scopes": ["client-7"]},
    },
    "checkpoints": {"existingSecret": "signing"},
    "launchers": {
        "extraRules": [{"apiGroups": ["kubeflow.org"], "resources": ["pytorchjobs"], "verbs": ["create", "get"]}],
        "extraClusterRules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}],
    },
    "migrations": {"annotations": {"sidecar.istio.io/inject": "false"}},
    "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn"}},
    "service": {"type": "LoadBalancer", "port": 8080, "annotations": {"a": "b"}},
    "ingress": {"annotations": {"a": "b"}},
    "metrics": {"dashboards": {"annotations": {"folder": "jobs"}}},
    "podAnnotations": {"a": "b"},
    "podLabels": {"tier": "control"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "arch", "operator": "In", "values": ["arm64"]}]}]
            }
        }
    },
    "priorityClassName": "system",
    "extraEnv": [{"name": "PGPASSWORD", "valueFrom": {"secretKeyRef": {"name": "pg", "key": "password"}}}],
    "extraEnvFrom": [{"secretRef": {"name": "tasks"}}],
    "extraVolumes": [{"name": "tasks", "configMap": {"name": "tasks"}}],
    "extraVolumeMounts": [{"name": "tasks", "mountPath": "/tasks", "readOnly": True}],
}

MODES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "sqlite": SQLITE,
    "sqlite on a claim": {"database": {"sqlite": {"existingClaim": "old"}}, "serviceAccount": {"create": False}},
    "postgresql": POSTGRESQL,
    "postgresql migrated by hand": merged(ON_POSTGRESQL, {"migrations": {"enabled": False}}),
    "split": SPLIT,
    "sqlite restored": {"baseline": "now", "database": {"sqlite": {"existingClaim": "restored"}}},
    "split restored": merged(SPLIT, {"baseline": "now"}),
    "everything": merged(SPLIT, EVERYTHING),
}


def release(mode: str) -> Rendered:
    """Return the rendered release of a mode."""
    return render(MODES[mode])

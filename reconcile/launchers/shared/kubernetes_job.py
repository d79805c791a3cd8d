"""The block of a `kubernetes` task, and the Job (batch/v1) and Secret that are made from it. Pure."""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as field_of
from typing import Any, Self

from reconcile.launchers.shared.block_faults import env_faults, pairs_faults, text_faults, texts_faults, unknown_fields
from reconcile.plugins import Launch
from revisions.errors import Fault
from revisions.ids import TriggerKey

OURS = "app.kubernetes.io/managed-by=triggerctl"
"""Label of all Jobs and Secrets of triggerctl."""
OWNER = "triggerctl/installation"
"""Label with the id of the installation that a Job belongs to."""
CONTAINER = "task"
FOLDER = "/run/triggerctl"
INPUT = "input.json"
OUTPUT = "/dev/termination-log"
SECONDS_TO_END = 10
"""Time between SIGTERM and SIGKILL, as for other launchers."""
SECONDS_BEYOND = 60
"""The cluster's own deadline is this much later than the timeout, so that a living controller ends the Job first."""
SECONDS_TO_KEEP = 7 * 24 * 3600
"""Time for which the cluster keeps an ended Job, in case no controller is running."""

_EXAMPLE = "write image: python:3.12-slim"
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?")


@dataclass(frozen=True, slots=True)
class JobBlock:
    """The `kubernetes` block of a task. None leaves the value to the image or the cluster."""

    image: str
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    env: Mapping[str, str] = field_of(default_factory=dict)
    namespace: str | None = None
    service_account: str | None = None
    resources: Mapping[str, Mapping[str, str]] | None = None
    node_selector: Mapping[str, str] | None = None
    image_pull_secrets: tuple[str, ...] | None = None

    @classmethod
    def of(cls, written: Mapping[str, Any]) -> Self:
        """Make a block from a mapping that has no faults."""
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in written.items()
        }
        return cls(**values)


def name(launch: Launch) -> str:
    """Return the name of an attempt's Job and Secret."""
    return f"triggerctl-{launch.run_id.lower()}-{launch.attempt}"


def job(launch: Launch) -> dict[str, Any]:
    """Return the Job.

    It is created before the Secret, which names it as its owner; the pod waits until the Secret exists.
    """
    block: JobBlock = launch.block
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(launch),
        "spec": {
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "activeDeadlineSeconds": int(launch.timeout_seconds) + SECONDS_BEYOND,
            "ttlSecondsAfterFinished": SECONDS_TO_KEEP,
            "template": {
                "metadata": {key: _metadata(launch)[key] for key in ("labels", "annotations")},
                "spec": {
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": SECONDS_TO_END,
                    "automountServiceAccountToken": block.service_account is not None,
                    "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
                    "containers": [_container(launch)],
                    "volumes": [
                        {
                            "name": "input",
                            "secret": {"secretName": name(launch), "items": [{"key": INPUT, "path": INPUT}]},
                        }
                    ],
                    **_pod_fields(block),
                },
            },
        },
    }


def secret(launch: Launch, uid: str) -> dict[str, Any]:
    """Return the Secret with input and environment. The cluster removes it with the Job that has the uid."""
    content = {**launch.environment, INPUT: json.dumps(launch.input, allow_nan=False)}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name(launch), "uid": uid}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(launch) | {"ownerReferences": [owner]},
        "type": "Opaque",
        "immutable": True,
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in content.items()},
    }


def _metadata(launch: Launch) -> dict[str, Any]:
    run = launch.input.get("run", {})
    labels = {
        **dict([OURS.split("=")]),
        "triggerctl/run": launch.run_id,
        "triggerctl/attempt": str(launch.attempt),
    }
    annotations = {}
    if launch.installation:
        labels[OWNER] = launch.installation
    if run.get("project"):
        labels["triggerctl/project"] = run["project"]
    if run.get("trigger"):
        labels["triggerctl/trigger"] = TriggerKey.parse(run["trigger"]).name
        annotations["triggerctl/trigger"] = run["trigger"]
    return {"name": name(launch), "labels": labels, "annotations": annotations}


def _container(launch: Launch) -> dict[str, Any]:
    block: JobBlock = launch.block
    contract = {"TRIGGERCTL_INPUT": f"{FOLDER}/{INPUT}", "TRIGGERCTL_OUTPUT": OUTPUT}
    own = {key: value for key, value in block.env.items() if key not in {**contract, **launch.environment}}
    secrets = [
        {"name": key, "valueFrom": {"secretKeyRef": {"name": name(launch), "key": key}}} for key in launch.environment
    ]
    # "$(" would be expanded by the cluster; "$$(" is its escape.
    plain = [{"name": key, "value": value.replace("$(", "$$(")} for key, value in (own | contract).items()]
    return {
        "name": CONTAINER,
        "image": block.image,
        **({} if block.command is None else {"command": [*block.command]}),
        **({} if block.args is None else {"args": [*block.args]}),
        **({} if block.resources is None else {"resources": block.resources}),
        "env": plain + secrets,
        "securityContext": {"allowPrivilegeEscalation": False},
        "terminationMessagePath": OUTPUT,
        "volumeMounts": [{"name": "input", "mountPath": FOLDER, "readOnly": True}],
    }


def _pod_fields(block: JobBlock) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if block.service_account is not None:
        fields["serviceAccountName"] = block.service_account
    if block.node_selector is not None:
        fields["nodeSelector"] = block.node_selector
    if block.image_pull_secrets is not None:
        fields["imagePullSecrets"] = [{"name": name} for name in block.image_pull_secrets]
    return fields


def faults(written: Any) -> Iterator[Fault]:
    """Yield the faults of a written `kubernetes` block."""
    if not isinstance(written, Mapping):
        yield Fault("", "must be a mapping", _EXAMPLE)
        return
    yield from unknown_fields(written, JobBlock.__slots__)
    if "image" not in written:
        yield Fault("image", "is missing", _EXAMPLE)
    else:
        yield from text_faults("image", written["image"], empty=False)
    for field in ("command", "args"):
        yield from texts_faults(field, written.get(field, []))
    yield from env_faults(written.get("env", {}))
    for field in ("namespace", "service_account"):
        yield from _name_faults(field, written.get(field, "default"))
    names = written.get("image_pull_secrets", [])
    if isinstance(names, list):
        for index, name in enumerate(names):
            yield from _name_faults(f"image_pull_secrets[{index}]", name)
    else:
        yield Fault("image_pull_secrets", "must be a list", "write image_pull_secrets: [name]")
    yield from pairs_faults("node_selector", written.get("node_selector", {}), names="label")
    yield from _resource_faults(written.get("resources", {}))


def _name_faults(path: str, name: Any) -> Iterator[Fault]:
    if faults := list(text_faults(path, name)):
        yield from faults
    elif not all(_LABEL.fullmatch(part) for part in name.split(".")):
        yield Fault(
            path, f"{name!r} cannot be a name in a cluster", "use lower-case letters, digits, and - between them"
        )


def _resource_faults(resources: Any) -> Iterator[Fault]:
    example = "write resources: {requests: {cpu: 500m, memory: 256Mi}, limits: {memory: 256Mi}}"
    if not isinstance(resources, Mapping):
        yield Fault("resources", "must be a mapping", example)
        return
    for fault in unknown_fields(resources, ["requests", "limits"]):
        yield Fault(f"resources.{fault.path}", fault.message, fault.hint or example)
    for kind in ("requests", "limits"):
        path, amounts = f"resources.{kind}", resources.get(kind, {})
        if faults := list(pairs_faults(path, amounts, names="cpu")):
            yield from faults
            continue
        for name, amount in amounts.items():
            if not _QUANTITY.fullmatch(amount):
                yield Fault(f"{path}.{name}", f"{amount!r} is not an amount", "write for example 500m, 2 or 256Mi")

"""The block of a `kubernetes` task, and what it becomes: a Job of batch/v1 and the Secret with its input. Pure."""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as field_of
from typing import Any, Self

from reconcile.launchers.shared.block_faults import env_faults, pairs_faults, text_faults, texts_faults, unknown_fields
from reconcile.protocols import Launch
from revisions.errors import Fault
from revisions.ids import TriggerKey

OURS = "app.kubernetes.io/managed-by=triggerctl"
"""The label that all of them bear."""
OWNER = "triggerctl/installation"
"""The label that says whose a Job is."""
CONTAINER = "task"
FOLDER = "/run/triggerctl"
INPUT = "input.json"
OUTPUT = "/dev/termination-log"
SECONDS_TO_END = 10
"""Between SIGTERM and SIGKILL, as for tasks of other kinds."""
SECONDS_BEYOND = 60
"""What the cluster's own deadline adds to the timeout, so that the controller's comes first while there is one."""
SECONDS_TO_KEEP = 7 * 24 * 3600
"""How long an ended Job waits for a controller to come back."""

_EXAMPLE = "write image: python:3.12-slim"
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?")


@dataclass(frozen=True, slots=True)
class JobBlock:
    """The `kubernetes` block of a task; None is what the block leaves to the image or to the cluster."""

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
        """Make a block of one that is right."""
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in written.items()
        }
        return cls(**values)


def name(launch: Launch) -> str:
    """The name of the Job and its Secret; it follows from run and attempt."""
    return f"triggerctl-{launch.run_id.lower()}-{launch.attempt}"


def job(launch: Launch) -> dict[str, Any]:
    """The Job; its pod waits for the Secret, which is made after it, to be owned by it."""
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
                    **_of_the_pod(block),
                },
            },
        },
    }


def secret(launch: Launch, uid: str) -> dict[str, Any]:
    """What the container is given; owned by the Job of that uid, it is removed with it."""
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
    given = {"TRIGGERCTL_INPUT": f"{FOLDER}/{INPUT}", "TRIGGERCTL_OUTPUT": OUTPUT}
    own = {key: value for key, value in block.env.items() if key not in {**given, **launch.environment}}
    secrets = [
        {"name": key, "valueFrom": {"secretKeyRef": {"name": name(launch), "key": key}}} for key in launch.environment
    ]
    return {
        "name": CONTAINER,
        "image": block.image,
        **({} if block.command is None else {"command": [*block.command]}),
        **({} if block.args is None else {"args": [*block.args]}),
        **({} if block.resources is None else {"resources": block.resources}),
        "env": [{"name": key, "value": value.replace("$(", "$$(")} for key, value in (own | given).items()] + secrets,
        "securityContext": {"allowPrivilegeEscalation": False},
        "terminationMessagePath": OUTPUT,
        "volumeMounts": [{"name": "input", "mountPath": FOLDER, "readOnly": True}],
    }


def _of_the_pod(block: JobBlock) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if block.service_account is not None:
        found["serviceAccountName"] = block.service_account
    if block.node_selector is not None:
        found["nodeSelector"] = block.node_selector
    if block.image_pull_secrets is not None:
        found["imagePullSecrets"] = [{"name": one} for one in block.image_pull_secrets]
    return found


def faults(written: Any) -> Iterator[Fault]:
    """What is wrong with the block of a `kubernetes` task."""
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
    if wrong := list(text_faults(path, name)):
        yield from wrong
    elif not all(_LABEL.fullmatch(part) for part in name.split(".")):
        yield Fault(path, f"{name!r} can be no name in a cluster", "lower-case letters, digits and - between")


def _resource_faults(resources: Any) -> Iterator[Fault]:
    example = "write resources: {requests: {cpu: 500m, memory: 256Mi}, limits: {memory: 256Mi}}"
    if not isinstance(resources, Mapping):
        yield Fault("resources", "must be a mapping", example)
        return
    for fault in unknown_fields(resources, ["requests", "limits"]):
        yield Fault(f"resources.{fault.path}", fault.message, fault.hint or example)
    for kind in ("requests", "limits"):
        path, amounts = f"resources.{kind}", resources.get(kind, {})
        if wrong := list(pairs_faults(path, amounts, names="cpu")):
            yield from wrong
            continue
        for name, amount in amounts.items():
            if not _QUANTITY.fullmatch(amount):
                yield Fault(f"{path}.{name}", f"{amount!r} is no amount", "such as 500m, 2, 256Mi")

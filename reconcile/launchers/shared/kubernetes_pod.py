"""Reading the state of a Job and its pod. Pure."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from reconcile.launchers.shared import task_output
from reconcile.launchers.shared.kubernetes_job import CONTAINER
from reconcile.plugins import Failed, Lost, Running, Succeeded, WorkProgress

LARGEST_MESSAGE = 4096
"""Bytes of a termination message that the cluster keeps; a message of this size may have been cut."""
GONE = "its Job was deleted"


def has_log(pod: Mapping[str, Any]) -> bool:
    """Return whether the container has begun, so that there can be a log."""
    return bool(_container_state(pod).keys() & {"running", "terminated"})


def end_condition(job: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the condition that describes how a Job ended, None while it runs."""
    return next((condition for condition in _true_conditions(job) if condition["type"] in ("Complete", "Failed")), None)


def progress(job: Mapping[str, Any] | None, pod: Mapping[str, Any] | None, last_line: str) -> WorkProgress:
    """Return the progress of an attempt from its Job and pod, each None if it does not exist."""
    if job is None:
        return Lost(GONE)
    condition = end_condition(job)
    if condition is None:
        return Running()
    terminated = _container_state(pod).get("terminated") if pod else None
    if condition["type"] == "Complete":
        return _success(terminated)
    output = None
    with suppress(task_output.BadOutput):
        output = _output(terminated) if terminated else None
    return Failed(_failure_reason(condition, pod, terminated, last_line), output)


def waiting_reason(pod: Mapping[str, Any] | None) -> str:
    """Return why a container does not start, such as a missing image or node; "" if nothing is wrong."""
    if pod is None:
        return ""
    waiting = _container_state(pod).get("waiting", {})
    if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
        return _reason_and_message(waiting)
    conditions = pod.get("status", {}).get("conditions") or []
    unscheduled = (each for each in conditions if each["type"] == "PodScheduled" and each.get("status") == "False")
    return next(map(_reason_and_message, unscheduled), "")


def _success(terminated: Mapping[str, Any] | None) -> WorkProgress:
    if terminated is None:
        return Failed("it is complete, and its pod is gone with what it answered")
    try:
        return Succeeded(_output(terminated) or {})
    except task_output.BadOutput as error:
        return Failed(str(error))


def _output(terminated: Mapping[str, Any]) -> dict[str, Any] | None:
    message = (terminated.get("message") or "").encode()
    if len(message) >= LARGEST_MESSAGE:
        raise task_output.BadOutput(
            f"output is larger than {LARGEST_MESSAGE - 1} bytes; answer by the callback instead"
        )
    return task_output.parse_output(message) if message else None


def _failure_reason(
    condition: Mapping[str, Any],
    pod: Mapping[str, Any] | None,
    terminated: Mapping[str, Any] | None,
    last_line: str,
) -> str:
    if condition.get("reason") == "DeadlineExceeded":
        return "ran longer than its deadline in the cluster"
    if disruption := _disruption(pod):
        return disruption
    if terminated is None or not terminated.get("exitCode"):
        return _reason_and_message(condition)
    reason = terminated.get("reason")
    words = [reason] if reason not in (None, "Error", "Completed") else []
    return ": ".join(filter(None, [*words, task_output.describe_exit_code(terminated["exitCode"]), last_line]))


def _disruption(pod: Mapping[str, Any] | None) -> str:
    """Return why the cluster ended the pod (eviction, preemption, shutdown of its node); "" if it did not."""
    if pod is None:
        return ""
    status = pod.get("status", {})
    if status.get("reason"):
        return _reason_and_message(status)
    disruptions = (condition for condition in _true_conditions(pod) if condition["type"] == "DisruptionTarget")
    return next(map(_reason_and_message, disruptions), "")


def _true_conditions(resource: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    conditions = resource.get("status", {}).get("conditions") or []
    return [condition for condition in conditions if condition.get("status") == "True"]


def _reason_and_message(resource: Mapping[str, Any]) -> str:
    words = filter(None, (resource.get("reason"), resource.get("message")))
    return ": ".join(words) or "it failed, and the cluster says no more"


def _container_state(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    statuses = pod.get("status", {}).get("containerStatuses") or []
    state: Mapping[str, Any] = next((each.get("state", {}) for each in statuses if each["name"] == CONTAINER), {})
    return state

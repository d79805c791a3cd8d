"""What a Job and its pod say of the work. Pure."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from reconcile.launchers.shared import answers
from reconcile.launchers.shared.kubernetes_job import CONTAINER
from reconcile.protocols import Failed, Lost, Running, Succeeded, WorkProgress

LARGEST_OUTPUT = 4096
"""Bytes that a termination message keeps."""
GONE = "its Job was deleted"


def has_printed(pod: Mapping[str, Any]) -> bool:
    """Whether there can be a log."""
    return bool(_state(pod).keys() & {"running", "terminated"})


def ended(job: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The condition that says how a Job ended; None while it goes on."""
    conditions = job.get("status", {}).get("conditions") or []
    return next((one for one in conditions if one["status"] == "True" and one["type"] in ("Complete", "Failed")), None)


def progress(job: Mapping[str, Any] | None, pod: Mapping[str, Any] | None, last_line: str) -> WorkProgress:
    """What the Job and its pod, each None where there is none, say of the work."""
    if job is None:
        return Lost(GONE)
    condition = ended(job)
    if condition is None:
        return Running()
    terminated = _state(pod).get("terminated") if pod else None
    if condition["type"] == "Complete":
        return _success(terminated)
    output = None
    with suppress(answers.BadOutput):
        output = _output(terminated) if terminated else None
    return Failed(_why(condition, pod, terminated, last_line), output)


def waiting(pod: Mapping[str, Any] | None) -> str:
    """Why a container does not start, "" when nothing is wrong: that it cannot be pulled, a limit, no node."""
    if pod is None:
        return ""
    reason = _state(pod).get("waiting", {})
    if reason.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
        return _said(reason)
    conditions = pod.get("status", {}).get("conditions") or []
    return next(
        (_said(one) for one in conditions if one["type"] == "PodScheduled" and one.get("status") == "False"), ""
    )


def _success(terminated: Mapping[str, Any] | None) -> WorkProgress:
    if terminated is None:
        return Failed("it is complete, and its pod is gone with what it answered")
    try:
        return Succeeded(_output(terminated) or {})
    except answers.BadOutput as error:
        return Failed(str(error))


def _output(terminated: Mapping[str, Any]) -> dict[str, Any] | None:
    message = (terminated.get("message") or "").encode()
    if len(message) >= LARGEST_OUTPUT:
        raise answers.BadOutput(f"output is larger than {LARGEST_OUTPUT - 1} bytes; answer by the callback instead")
    return answers.parse_output(message) if message else None


def _why(
    condition: Mapping[str, Any],
    pod: Mapping[str, Any] | None,
    terminated: Mapping[str, Any] | None,
    last_line: str,
) -> str:
    if condition.get("reason") == "DeadlineExceeded":
        return "ran longer than its deadline in the cluster"
    if taken := _taken_away(pod):
        return taken
    if terminated is None or not terminated.get("exitCode"):
        return _said(condition)
    reason = terminated.get("reason")
    words = [reason] if reason not in (None, "Error", "Completed") else []
    return ": ".join(filter(None, [*words, answers.exit_words(terminated["exitCode"]), last_line]))


def _taken_away(pod: Mapping[str, Any] | None) -> str:
    """Why the cluster itself ended a pod: evicted, preempted, its node shut down; "" where it did not."""
    status = pod.get("status", {}) if pod else {}
    if status.get("reason"):
        return _said(status)
    conditions = status.get("conditions") or []
    disrupted = (one for one in conditions if one["type"] == "DisruptionTarget" and one.get("status") == "True")
    return next(map(_said, disrupted), "")


def _said(of: Mapping[str, Any]) -> str:
    return ": ".join(filter(None, (of.get("reason"), of.get("message")))) or "it failed, and the cluster says no more"


def _state(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    statuses = pod.get("status", {}).get("containerStatuses") or []
    state: Mapping[str, Any] = next((one.get("state", {}) for one in statuses if one["name"] == CONTAINER), {})
    return state

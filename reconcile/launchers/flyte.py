"""`flyte`: a run of a registered task in Flyte 2, through its Connect API."""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from reconcile.launchers.shared import remote_job, task_output
from reconcile.launchers.shared.block_faults import extra_faults, refuse, text_faults, unknown_fields
from reconcile.launchers.shared.remote_job import Unreachable
from reconcile.plugins import Failed, Launch, Launcher, LaunchError, Lost, Running, Succeeded, Work, WorkProgress
from revisions.errors import Fault

NAMES = {"org": 63, "project": 63, "domain": 63, "task": 255, "version": 63}
"""Required fields, and the longest value Flyte accepts, in characters."""
INPUT = "document"
"""Name of the task's only input."""
LONGEST_NAME = 30
"""Characters of a run's name."""
OWNER = "triggerctl-installation"
"""Label with the id of the installation that a run belongs to."""
MILLISECONDS = 30_000
"""Timeout of a call."""
TRANSIENT = ("aborted", "canceled", "deadline_exceeded", "internal", "resource_exhausted", "unavailable", "unknown")
"""Error codes of Connect after which a call can be repeated."""

_EXAMPLE = (
    "write {endpoint: https://flyte.example, org: acme, project: sales, domain: production, task: reports.weekly, …}"
)
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class FlyteBlock:
    """The `flyte` block of a task; `token` names a variable of the controller's environment."""

    endpoint: str
    org: str
    project: str
    domain: str
    task: str
    version: str
    token: str | None = None

    @classmethod
    def of(cls, written: Mapping[str, Any]) -> Self:
        """Make a block from a mapping that has no faults."""
        return cls(**written)


class FlyteLauncher:
    """Creates a run of `{endpoint, org, project, domain, task, version, token: VARIABLE}`, once (X-10)."""

    finds_anywhere = True

    def read(self, written: Any) -> FlyteBlock:
        refuse([*extra_faults("flyte", "flyteidl2", "connectrpc"), *_faults(written)])
        return FlyteBlock.of(written)

    def system(self, block: FlyteBlock) -> "Domain":
        return Domain(block.endpoint, block.org, block.project, block.domain, block.token)

    def start(self, launch: Launch) -> Work:
        return remote_job.start(launch, FlyteCalls, FlyteBlock.of)

    def adopt(self, folder: Path) -> Work | None:
        return remote_job.adopt(folder, FlyteCalls, FlyteBlock.of)


@dataclass(frozen=True, slots=True)
class Domain:
    """A domain of a project in Flyte. `token` names the variable with the token for it."""

    endpoint: str
    org: str
    project: str
    domain: str
    token: str | None

    def reach(self) -> None:
        """Ask for a run that does not exist. The call fails without access and without permission."""
        from flyteidl2.workflow import run_service_pb2 as messages

        run = {"org": self.org, "project": self.project, "domain": self.domain, "name": "triggerctl-doctor"}
        with _translated_errors("GetRunDetails", allowed="not_found"):
            request = messages.GetRunDetailsRequest(run_id=run)
            _client(self.endpoint).get_run_details(request, headers=_headers(self.token), timeout_ms=MILLISECONDS)


class FlyteCalls:
    """Calls for the run of one attempt; Flyte refuses a second run under the same name."""

    is_repeatable = True

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._block: FlyteBlock = launch.block
        name = f"r{launch.run_id.lower()}{launch.attempt}"
        self._run = {"org": self._block.org, "project": self._block.project, "domain": self._block.domain, "name": name}

    def prepare(self) -> None:
        if len(self._run["name"]) > LONGEST_NAME:
            raise LaunchError(f"attempt {self._launch.attempt}: a name in Flyte has no room for more than three digits")
        _headers(self._block.token)

    def submit(self) -> None:
        with _translated_errors("CreateRun", allowed="already_exists"):
            _client(self._block.endpoint).create_run(self._request(), **self._call_options())
            return
        self._details()

    def subscribe(self, wake: Callable[[], None]) -> bool:
        return False

    def read_progress(self) -> WorkProgress:
        from flyteidl2.common.phase_pb2 import ActionPhase

        details = self._details()
        if details is None:
            return Lost("its run is not there")
        action = details.action
        phase = ActionPhase.Name(action.status.phase).removeprefix("ACTION_PHASE_")
        if phase not in ("SUCCEEDED", "RECOVERED", "FAILED", "ABORTED", "TIMED_OUT"):
            return Running()
        self._keep_log(action)
        match phase:
            case "FAILED":
                return _failure(action.error_info.message)
            case "ABORTED":
                return Failed(": ".join(filter(None, ("was aborted", action.abort_info.reason))))
            case "TIMED_OUT":
                return Failed("ran longer than Flyte lets the task run")
        return self._success(action)

    def cancel(self, *, force: bool) -> None:
        from flyteidl2.workflow import run_service_pb2 as messages

        if self._details() is None:
            return
        with _translated_errors("AbortRun", allowed="not_found"):
            request = messages.AbortRunRequest(run_id=self._run, reason="asked to end by triggerctl")
            _client(self._block.endpoint).abort_run(request, **self._call_options())

    def clean_up(self) -> None:
        """Do nothing: Flyte keeps its runs as its own history."""

    def _details(self) -> Any:
        """Return the attempt's run, None if there is none. Raises Foreign if it is another installation's."""
        from flyteidl2.workflow import run_service_pb2 as messages

        details = None
        with _translated_errors("GetRunDetails", allowed="not_found"):
            request = messages.GetRunDetailsRequest(run_id=self._run)
            details = _client(self._block.endpoint).get_run_details(request, **self._call_options()).details
        if details is not None:
            owner = details.run_spec.labels.values.get(OWNER, "").upper()
            remote_job.refuse_foreign(self._launch, f"the run {self._run['name']} in Flyte", owner)
        return details

    def _request(self) -> Any:
        from flyteidl2.core.literals_pb2 import KeyValuePair
        from flyteidl2.workflow import run_service_pb2 as messages

        block = self._block
        task = {"org": block.org, "project": block.project, "domain": block.domain, "name": block.task}
        task["version"] = block.version
        document = json.dumps(self._launch.input, allow_nan=False)
        literal = {"name": INPUT, "value": {"scalar": {"primitive": {"string_value": document}}}}
        variables = [KeyValuePair(key=key, value=value) for key, value in self._launch.environment.items()]
        labels = {"triggerctl-run": self._launch.run_id.lower(), "triggerctl-attempt": str(self._launch.attempt)}
        if self._launch.installation:
            labels[OWNER] = self._launch.installation.lower()
        return messages.CreateRunRequest(
            run_id=self._run,
            task_id=task,
            inputs={"literals": [literal]},
            run_spec={"envs": {"values": variables}, "labels": {"values": labels}},
        )

    def _success(self, action: Any) -> WorkProgress:
        from flyteidl2.workflow import run_service_pb2 as messages

        with _translated_errors("GetActionData"):
            request = messages.GetActionDataRequest(action_id=action.id)
            outputs = _client(self._block.endpoint).get_action_data(request, **self._call_options()).outputs
        if not outputs.literals:
            return Succeeded({})
        scalar = outputs.literals[0].value.scalar
        if scalar.WhichOneof("value") == "none_type":
            return Succeeded({})
        if scalar.primitive.WhichOneof("value") != "string_value":
            return Failed("output is not a text; let the task return str, a JSON object")
        try:
            return Succeeded(task_output.parse_output(scalar.primitive.string_value.encode()))
        except task_output.BadOutput as error:
            return Failed(str(error))

    def _keep_log(self, action: Any) -> None:
        """Copy the log. Errors are ignored: logs come from a service of their own, whose failure is not the task's."""
        from connectrpc.errors import ConnectError
        from flyteidl2.workflow import run_logs_service_pb2 as messages

        request = messages.TailLogsRequest(action_id=action.id, attempt=action.status.attempts or 1)
        with suppress(ConnectError, OSError), (self._launch.folder / "log").open("wb") as file:
            for answer in _log_client(self._block.endpoint).tail_logs(request, **self._call_options()):
                for line in (line for logs in answer.logs for line in logs.lines):
                    file.write(line.message.rstrip("\n").encode() + b"\n")

    def _call_options(self) -> dict[str, Any]:
        return {"headers": _headers(self._block.token), "timeout_ms": MILLISECONDS}


@contextmanager
def _translated_errors(call: str, allowed: str = "") -> Iterator[None]:
    """Raise errors of Connect as Unreachable or LaunchError. The code `allowed` only ends the block."""
    from connectrpc.errors import ConnectError

    try:
        yield
    except ConnectError as error:
        code = error.code.value
        if code == allowed:
            return
        text = f"Flyte answered {call} with {code}: {error.message}"
        raise (Unreachable(text) if code in TRANSIENT else LaunchError(text)) from None


@cache
def _client(endpoint: str) -> Any:
    from flyteidl2.workflow.run_service_connect import RunServiceClientSync

    return RunServiceClientSync(endpoint.rstrip("/"))


@cache
def _log_client(endpoint: str) -> Any:
    from flyteidl2.workflow.run_logs_service_connect import RunLogsServiceClientSync

    return RunLogsServiceClientSync(endpoint.rstrip("/"))


def _headers(variable: str | None) -> dict[str, str]:
    if variable is None:
        return {}
    if token := os.environ.get(variable, ""):
        return {"authorization": f"Bearer {token}"}
    raise LaunchError(f"the controller's environment has no {variable}")


def _failure(message: str) -> Failed:
    """Return the failure. A last line that is a JSON object is the output: tasks can keep state on failure (X-06)."""
    lines = message.strip().splitlines()
    output = None
    if lines and lines[-1].startswith("{"):
        with suppress(task_output.BadOutput):
            output = task_output.parse_output(lines[-1].encode())
            lines.pop()
    return Failed(" ".join(" ".join(lines).split())[-task_output.LONGEST_LAST_LINE :] or "failed", output)


def _faults(written: Any) -> Iterator[Fault]:
    if not isinstance(written, Mapping):
        yield Fault("", "must be a mapping", _EXAMPLE)
        return
    yield from unknown_fields(written, ["endpoint", *NAMES, "token"])
    for field in ("endpoint", *NAMES):
        if field not in written:
            yield Fault(field, "is missing", _EXAMPLE)
        elif faults := list(text_faults(field, written[field], empty=False)):
            yield from faults
        elif len(written[field]) > NAMES.get(field, 1000):
            yield Fault(field, "is longer than Flyte allows", f"at most {NAMES.get(field, 1000)} characters")
        elif field == "endpoint":
            yield from _endpoint_faults(written[field])
    if "token" in written:
        yield from _token_faults(written["token"])


def _endpoint_faults(endpoint: str) -> Iterator[Fault]:
    hint = "write endpoint: https://flyte.example"
    try:
        parts = urlsplit(endpoint)
        parts.port  # noqa: B018 - raises ValueError for a bad port
    except ValueError as error:
        yield Fault("endpoint", f"is not an address: {error}", hint)
        return
    if parts.scheme not in ("http", "https") or not parts.hostname:
        yield Fault("endpoint", "must begin with http:// or https:// and a host", hint)
    elif "@" in parts.netloc:
        yield Fault("endpoint", "holds credentials, which would be stored and shown", "use token: FLYTE_TOKEN")


def _token_faults(name: Any) -> Iterator[Fault]:
    if faults := list(text_faults("token", name, empty=False)):
        yield from faults
    elif not _VARIABLE.fullmatch(name) or name.startswith("TRIGGERCTL_"):
        yield Fault(
            "token",
            "names no variable of the controller's environment that is meant for tasks",
            "write token: FLYTE_TOKEN, and the token into that variable",
        )


launcher: Launcher = FlyteLauncher()

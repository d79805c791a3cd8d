"""Double of a Flyte 2 control plane on a real socket, based on the client package's own service classes.

Tasks are processes. Requests are validated by the rules in the package's descriptors, as the real one does.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

import protovalidate
import uvicorn
from connectrpc.code import Code
from connectrpc.errors import ConnectError
from flyteidl2.common import phase_pb2 as phases
from flyteidl2.workflow import run_definition_pb2 as definitions
from flyteidl2.workflow import run_logs_service_pb2 as log_messages
from flyteidl2.workflow import run_service_pb2 as messages
from flyteidl2.workflow.run_logs_service_connect import RunLogsService, RunLogsServiceASGIApplication
from flyteidl2.workflow.run_service_connect import RunService, RunServiceASGIApplication

from tests.waiting import eventually

TOKEN = "let-me-in"


class Run:
    """Run whose single action is a process of this machine."""

    def __init__(self, request: Any, code: str) -> None:
        self.request = request
        self.reason: str | None = None
        self._folder = tempfile.TemporaryDirectory()
        [literal] = request.inputs.literals
        (self.folder / "input").write_text(literal.value.scalar.primitive.string_value)
        environment = {variable.key: variable.value for variable in request.run_spec.envs.values}
        environment |= {
            "TRIGGERCTL_INPUT": str(self.folder / "input"),
            "TRIGGERCTL_OUTPUT": str(self.folder / "output"),
        }
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-c", code, request.task_id.name, "file"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={"PATH": os.environ["PATH"], **environment},
                start_new_session=True,
            )

    @property
    def folder(self) -> Path:
        return Path(self._folder.name)

    @property
    def output(self) -> str:
        path = self.folder / "output"
        return path.read_text() if path.exists() else ""

    def stop(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def remove(self) -> None:
        self.stop()
        self._folder.cleanup()

    def details(self) -> Any:
        action = definitions.ActionDetails(id={"run": self.request.run_id, "name": "a0"})
        action.status.attempts = 1
        code = self._process.poll()
        if self.reason is not None:
            action.status.phase = phases.ACTION_PHASE_ABORTED
            action.abort_info.reason = self.reason
        elif code is None:
            action.status.phase = phases.ACTION_PHASE_RUNNING
        elif code:
            action.status.phase = phases.ACTION_PHASE_FAILED
            action.error_info.message = (self.folder / "log").read_text() + self.output
        else:
            action.status.phase = phases.ACTION_PHASE_SUCCEEDED
        return definitions.RunDetails(action=action, run_spec=self.request.run_spec)


class Flyte(RunService, RunLogsService):  # type: ignore[misc]  # the package has no types
    """Both services, while the `with` block runs."""

    def __init__(self, code: str, token: str = "") -> None:
        self._code, self._token = code, token
        self.runs: dict[str, Run] = {}
        self.calls: list[str] = []
        self.refuse: list[ConnectError] = []
        self.refuse_always: dict[str, ConnectError] = {}
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=512)
        self._server = uvicorn.Server(uvicorn.Config(self._route, interface="asgi3", log_level="error", lifespan="off"))
        self._apps = {
            "/flyteidl2.workflow.RunService": RunServiceASGIApplication(self),
            "/flyteidl2.workflow.RunLogsService": RunLogsServiceASGIApplication(self),
        }

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    async def create_run(self, request: Any, ctx: Any) -> Any:
        self._check("CreateRun", request, ctx)
        name = request.run_id.name
        if name in self.runs:
            raise ConnectError(Code.ALREADY_EXISTS, f"run {name} already exists")
        self.runs[name] = Run(request, self._code)
        return messages.CreateRunResponse()

    async def get_run_details(self, request: Any, ctx: Any) -> Any:
        self._check("GetRunDetails", request, ctx)
        return messages.GetRunDetailsResponse(details=self._run(request.run_id.name).details())

    async def abort_run(self, request: Any, ctx: Any) -> Any:
        self._check("AbortRun", request, ctx)
        run = self._run(request.run_id.name)
        if run.details().action.status.phase == phases.ACTION_PHASE_RUNNING:
            run.reason = request.reason
            run.stop()
        return messages.AbortRunResponse()

    async def get_action_data(self, request: Any, ctx: Any) -> Any:
        self._check("GetActionData", request, ctx)
        output = self._run(request.action_id.run.name).output
        literals = [{"name": "o0", "value": {"scalar": {"primitive": {"string_value": output}}}}] if output else []
        return messages.GetActionDataResponse(outputs={"literals": literals})

    async def tail_logs(self, request: Any, ctx: Any) -> AsyncIterator[Any]:
        run = self._run(request.action_id.run.name)
        for line in (run.folder / "log").read_text().splitlines():
            yield log_messages.TailLogsResponse(logs=[{"lines": [{"message": line}]}])

    def _check(self, call: str, request: Any, ctx: Any) -> None:
        self.calls.append(call)
        if self.refuse:
            raise self.refuse.pop(0)
        if call in self.refuse_always:
            raise self.refuse_always[call]
        if self._token and ctx.request_headers().get("authorization") != f"Bearer {self._token}":
            raise ConnectError(Code.UNAUTHENTICATED, "who are you?")
        try:
            protovalidate.validate(request)
        except protovalidate.ValidationError as error:
            raise ConnectError(Code.INVALID_ARGUMENT, str(error)) from None

    def _run(self, name: str) -> Run:
        if name not in self.runs:
            raise ConnectError(Code.NOT_FOUND, f"no run {name}")
        return self.runs[name]

    async def _route(self, scope: Any, receive: Any, send: Any) -> None:
        service = scope["path"].rpartition("/")[0]
        await self._apps[service](scope, receive, send)

    def __enter__(self) -> Self:
        arguments = {"sockets": [self._socket]}
        self._thread = threading.Thread(target=self._server.run, kwargs=arguments, daemon=True)
        self._thread.start()
        eventually(lambda: self._server.started)
        return self

    def __exit__(self, *arguments: object) -> None:
        self._server.should_exit = True
        self._thread.join()
        for run in self.runs.values():
            run.remove()


def block(endpoint: str, task: str, **more: Any) -> dict[str, Any]:
    """Return the block of a Flyte task."""
    names = {"org": "acme", "project": "sales", "domain": "production", "version": "v1"}
    return {"endpoint": endpoint, "task": task, **names, **more}

"""`celery`: a task of an existing Celery cluster. A message is sent once; the result backend reports the end."""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self

from reconcile.launchers.shared import remote_job, task_output
from reconcile.launchers.shared.block_faults import extra_faults, refuse, text_faults, unknown_fields
from reconcile.launchers.shared.remote_job import Unreachable
from reconcile.plugins import Failed, Launch, Launcher, LaunchError, Running, Succeeded, Work, WorkProgress
from revisions.errors import Fault

VARIABLES = {"broker": "CELERY_BROKER_URL", "backend": "CELERY_RESULT_BACKEND"}
"""Fields that name a variable of the controller's environment; the defaults are Celery's own names."""
UNKNOWN = "PENDING"
"""Status that a backend returns both for a waiting task and for an id it does not know."""
SECONDS_BEYOND = 60
"""The worker's own limit is this much later than the timeout, so that a living controller ends the task first."""
SECONDS_TO_CONNECT = 5
_SHOWN = "['…']"
"""Text that workers show in logs and events instead of the argument, which contains secrets."""

_EXAMPLE = "write task: reports.weekly"
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class CeleryBlock:
    """The `celery` block of a task; `broker` and `backend` name variables of the controller's environment."""

    task: str
    queue: str | None = None
    broker: str = VARIABLES["broker"]
    backend: str = VARIABLES["backend"]

    @classmethod
    def of(cls, written: Mapping[str, Any]) -> Self:
        """Make a block from a mapping that has no faults."""
        return cls(**written)


class CeleryLauncher:
    """Sends `{task, queue, broker: VARIABLE, backend: VARIABLE}` once and polls the result backend (X-10)."""

    finds_anywhere = False

    def read(self, written: Any) -> CeleryBlock:
        refuse([*extra_faults("celery", "celery"), *_faults(written)])
        return CeleryBlock.of(written)

    def system(self, block: CeleryBlock) -> "CeleryCluster":
        return CeleryCluster(block.broker, block.backend)

    def start(self, launch: Launch) -> Work:
        return remote_job.start(launch, CeleryCalls, CeleryBlock.of)

    def adopt(self, folder: Path) -> Work | None:
        return remote_job.adopt(folder, CeleryCalls, CeleryBlock.of)


class CeleryCluster(NamedTuple):
    """A broker and a result backend, each given by the variable that contains its address."""

    broker: str
    backend: str

    def reach(self, id: str = "triggerctl-doctor") -> None:
        """Connect to the broker and ask the backend for an id. Raises Unreachable and LaunchError."""
        with _connected(self) as apps, apps.connection() as connection:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=SECONDS_TO_CONNECT)
            _meta(apps.reader.backend, id)


class CeleryCalls:
    """Calls for the task of one attempt, found by its id.

    Celery runs a task once per message, so after a message that may have been sent, only its result is awaited.
    """

    is_repeatable = False

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._block: CeleryBlock = launch.block
        self._cluster = CeleryCluster(self._block.broker, self._block.backend)
        self._id = "-".join(filter(None, ("triggerctl", launch.installation, launch.run_id, str(launch.attempt))))

    def prepare(self) -> None:
        self._cluster.reach(self._id)

    def submit(self) -> None:
        with _connected(self._cluster) as apps:
            if _meta(apps.reader.backend, self._id)["status"] != UNKNOWN:
                return
            seconds, queue = self._launch.timeout_seconds, self._block.queue
            with apps.connection() as connection:
                apps.sender.send_task(
                    self._block.task,
                    args=[self._launch.input],
                    argsrepr=_SHOWN,
                    task_id=self._id,
                    connection=connection,
                    retry=False,
                    expires=seconds,
                    time_limit=seconds + SECONDS_BEYOND,
                    headers=self._headers(),
                    **({"queue": queue} if queue else {}),
                )

    def _headers(self) -> dict[str, str]:
        """Return the trace context in the form that OpenTelemetry's instrumentation of Celery reads."""
        parent = self._launch.environment.get("TRACEPARENT")
        return {"traceparent": parent} if parent else {}

    def subscribe(self, wake: Callable[[], None]) -> bool:
        return False

    def read_progress(self) -> WorkProgress:
        with _connected(self._cluster) as apps:
            backend = apps.reader.backend
            try:
                meta = _meta(backend, self._id)
            except _unreadable_errors() as error:
                hint = "the worker's result_serializer must be json"
                return Failed(f"its result cannot be read: {type(error).__name__}: {error}; {hint}")
        match meta["status"]:
            case "SUCCESS":
                return _success(meta["result"])
            case "FAILURE":
                with suppress(OSError):
                    (self._launch.folder / "log").write_text(str(meta["traceback"] or ""))
                return _failure(meta["result"])
            case "REVOKED":
                return Failed("was revoked")
        return Running()

    def cancel(self, *, force: bool) -> None:
        with _connected(self._cluster) as apps, apps.connection() as connection:
            chosen = "SIGKILL" if force else "SIGTERM"
            apps.sender.control.revoke(self._id, terminate=True, signal=chosen, connection=connection)

    def clean_up(self) -> None:
        """Do nothing: backends remove results after a time."""


def _meta(backend: Any, id: str) -> dict[str, Any]:
    """Return status, result and traceback of an id.

    Nothing is unpickled. Raises one of `_unreadable_errors` if the stored result cannot be read.
    """
    meta: dict[str, Any] = backend.get_task_meta(id, cache=False)
    return {"status": meta["status"], "result": meta["result"], "traceback": meta.get("traceback")}


def _unreadable_errors() -> tuple[type[Exception], ...]:
    from celery.exceptions import SecurityError
    from kombu.exceptions import ContentDisallowed, SerializationError

    return (SerializationError, ContentDisallowed, SecurityError, KeyError, TypeError, ValueError)


@contextmanager
def _connected(cluster: CeleryCluster) -> "Iterator[Apps]":
    """Yield the apps of a cluster; errors in the block become Unreachable.

    Their text does not contain an address, which can contain a password.
    """
    apps = _apps(*map(_address, cluster))
    try:
        yield apps
    except LaunchError:
        raise
    except Exception as error:  # noqa: BLE001 - every broker and backend raises its own errors
        raise Unreachable(f"the Celery cluster cannot be reached: {type(error).__name__}: {error}") from None


class Apps(NamedTuple):
    """Celery apps of one cluster: one that sends and one that reads results.

    `sender` has no backend: with one, Celery would subscribe to the result of each message and keep a connection for
    it. The addresses are set so that they win over CELERY_BROKER_URL and CELERY_RESULT_BACKEND in the environment,
    which Celery otherwise prefers to the ones given to an app.
    """

    sender: Any
    reader: Any
    broker: str

    def connection(self) -> Any:
        """Return a connection to the broker, not yet opened."""
        return self.sender.connection_for_write(self.broker)


@cache
def _apps(broker: str, backend: str) -> Apps:
    from celery import Celery

    sender, reader = (Celery("triggerctl", set_as_current=False, broker=broker) for _ in range(2))
    apps = Apps(sender, reader, broker)
    sender.backend_cls, reader.backend_cls = "disabled", backend
    apps.sender.conf.broker_connection_timeout = SECONDS_TO_CONNECT
    apps.sender.conf.broker_transport_options = {"socket_connect_timeout": SECONDS_TO_CONNECT, "socket_timeout": 30}
    apps.reader.conf.redis_socket_connect_timeout = SECONDS_TO_CONNECT
    apps.reader.conf.redis_socket_timeout = 30
    return apps


def _address(variable: str) -> str:
    address = os.environ.get(variable, "")
    if not address:
        raise LaunchError(f"the controller's environment has no {variable}")
    if address.startswith("rpc"):
        raise LaunchError(f"{variable} is rpc, which shows a result to its sender alone; use a backend that keeps it")
    return address


def _success(result: Any) -> WorkProgress:
    if result is None:
        return Succeeded({})
    try:
        return Succeeded(_output(result))
    except task_output.BadOutput as error:
        return Failed(str(error))


def _failure(error: Any) -> Failed:
    """Return the failure. A mapping as the exception's last argument is the output: a task can keep state (X-06)."""
    from celery.utils.serialization import UnpickleableExceptionWrapper

    if isinstance(error, UnpickleableExceptionWrapper):
        return Failed(" ".join(str(error.text).split())[:300])
    arguments = list(getattr(error, "args", [error]))
    output = None
    if arguments and isinstance(arguments[-1], Mapping):
        with suppress(task_output.BadOutput):
            output = _output(arguments.pop())
    words = [type(error).__name__, *(" ".join(str(argument).split()) for argument in arguments)]
    return Failed(": ".join(words)[:300], output)


def _output(result: Any) -> dict[str, Any]:
    """Return a worker's result as an output, under the same rules as any other. Raises BadOutput."""
    try:
        text = json.dumps(result).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise task_output.BadOutput(f"output is not JSON: {error}") from None
    return task_output.parse_output(text)


def _faults(written: Any) -> Iterator[Fault]:
    if not isinstance(written, Mapping):
        yield Fault("", "must be a mapping", _EXAMPLE)
        return
    yield from unknown_fields(written, ["task", "queue", *VARIABLES])
    if "task" not in written:
        yield Fault("task", "is missing", _EXAMPLE)
    for field in ("task", "queue"):
        if field in written:
            yield from text_faults(field, written[field], empty=False)
    for field, default in VARIABLES.items():
        yield from _variable_faults(field, written.get(field, default))


def _variable_faults(field: str, name: Any) -> Iterator[Fault]:
    if faults := list(text_faults(field, name, empty=False)):
        yield from faults
    elif not _VARIABLE.fullmatch(name):
        hint = f"write {field}: {VARIABLES[field]}, and the address into the controller's environment"
        yield Fault(field, "names no variable; an address, which may hold a password, would be stored and shown", hint)
    elif name.startswith("TRIGGERCTL_"):
        yield Fault(field, "is a setting of the controller", f"use a variable of its own, such as {VARIABLES[field]}")


launcher: Launcher = CeleryLauncher()

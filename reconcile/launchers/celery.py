"""`celery`: a task of an existing Celery cluster."""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self

from reconcile.launchers.shared import answers, remote_job
from reconcile.launchers.shared.block_faults import extra_faults, refuse, text_faults, unknown_fields
from reconcile.launchers.shared.remote_job import Unreachable
from reconcile.protocols import Failed, Launch, Launcher, LaunchError, Running, Succeeded, Work, WorkProgress
from revisions.errors import Fault

VARIABLES = {"broker": "CELERY_BROKER_URL", "backend": "CELERY_RESULT_BACKEND"}
"""Fields that name a variable of the controller's environment, and the ones that Celery itself knows."""
UNKNOWN = "PENDING"
"""What a backend says of an id: that it waits, or that nobody ever heard of it."""
SECONDS_BEYOND = 60
"""What the worker's own limit adds to the timeout, so that the controller's comes first while there is one."""
SECONDS_TO_CONNECT = 5
_SHOWN = "['…']"
"""What workers write into their logs and events instead of the argument, which holds secrets."""

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
        """Make a block of one that is right."""
        return cls(**written)


class CeleryLauncher:
    """Sends `{task, queue, broker: VARIABLE, backend: VARIABLE}` once, and asks the backend for its end (X-10)."""

    finds_anywhere = False

    def read(self, written: Any) -> CeleryBlock:
        refuse([*extra_faults("celery", "celery"), *_faults(written)])
        return CeleryBlock.of(written)

    def system(self, block: CeleryBlock) -> "CeleryCluster":
        return CeleryCluster(block.broker, block.backend)

    def start(self, launch: Launch) -> Work:
        return remote_job.start(launch, CeleryTask, CeleryBlock.of)

    def adopt(self, folder: Path) -> Work | None:
        return remote_job.adopt(folder, CeleryTask, CeleryBlock.of)


class CeleryCluster(NamedTuple):
    """A broker and a backend, each by the variable that holds its address."""

    broker: str
    backend: str

    def reach(self, id: str = "triggerctl-doctor") -> None:
        """Connects to the broker, and asks the backend for an id."""
        with _talking(self) as apps, apps.connection() as connection:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=SECONDS_TO_CONNECT)
            _meta(apps.reader.backend, id)


class CeleryTask:
    """One attempt, by its id. A message that is sent twice runs twice, so what may have been sent is only awaited."""

    repeatable = False

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._block: CeleryBlock = launch.block
        self._cluster = CeleryCluster(self._block.broker, self._block.backend)
        self._id = "-".join(filter(None, ("triggerctl", launch.installation, launch.run_id, str(launch.attempt))))

    def reach(self) -> None:
        self._cluster.reach(self._id)

    def submit(self) -> None:
        with _talking(self._cluster) as apps:
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
        """As OpenTelemetry's instrumentation of Celery reads them."""
        parent = self._launch.environment.get("TRACEPARENT")
        return {"traceparent": parent} if parent else {}

    def told(self, wake: Callable[[], None]) -> bool:
        return False

    def look(self) -> WorkProgress:
        with _talking(self._cluster) as apps:
            backend = apps.reader.backend
            try:
                meta = _meta(backend, self._id)
            except _unreadable() as error:
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
        with _talking(self._cluster) as apps, apps.connection() as connection:
            chosen = "SIGKILL" if force else "SIGTERM"
            apps.sender.control.revoke(self._id, terminate=True, signal=chosen, connection=connection)

    def clean(self) -> None:
        """Results expire by themselves."""


def _meta(backend: Any, id: str) -> dict[str, Any]:
    """What the backend holds of an id; nothing is unpickled. Raises one of `_unreadable` for what is no result."""
    found: dict[str, Any] = backend.get_task_meta(id, cache=False)
    return {"status": found["status"], "result": found["result"], "traceback": found.get("traceback")}


def _unreadable() -> tuple[type[Exception], ...]:
    from celery.exceptions import SecurityError
    from kombu.exceptions import ContentDisallowed, SerializationError

    return (SerializationError, ContentDisallowed, SecurityError, KeyError, TypeError, ValueError)


@contextmanager
def _talking(cluster: CeleryCluster) -> "Iterator[Apps]":
    """Turns whatever goes wrong on the way into Unreachable; no address is told, for it may hold a password."""
    apps = _apps(*map(_address, cluster))
    try:
        yield apps
    except LaunchError:
        raise
    except Exception as error:  # noqa: BLE001 - each broker and backend has errors of its own
        raise Unreachable(f"the Celery cluster cannot be reached: {type(error).__name__}: {error}") from None


class Apps(NamedTuple):
    """`sender` knows no backend: with one it would subscribe to each result, for which its connection is not made.

    Both go by the addresses they were made for: by itself Celery puts CELERY_BROKER_URL and CELERY_RESULT_BACKEND of
    the environment before what an app is given.
    """

    sender: Any
    reader: Any
    broker: str

    def connection(self) -> Any:
        """To the broker; not made yet."""
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
    except answers.BadOutput as error:
        return Failed(str(error))


def _failure(error: Any) -> Failed:
    """With the output that the exception carries as its last argument: a task may keep state when it fails, too."""
    from celery.utils.serialization import UnpickleableExceptionWrapper

    if isinstance(error, UnpickleableExceptionWrapper):
        return Failed(" ".join(str(error.text).split())[:300])
    said = list(getattr(error, "args", [error]))
    output = None
    if said and isinstance(said[-1], Mapping):
        with suppress(answers.BadOutput):
            output = _output(said.pop())
    return Failed(": ".join([type(error).__name__, *(" ".join(str(one).split()) for one in said)])[:300], output)


def _output(result: Any) -> dict[str, Any]:
    """What a worker returned, judged as any other output. Raises BadOutput."""
    try:
        text = json.dumps(result).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise answers.BadOutput(f"output is not JSON: {error}") from None
    if len(text) > answers.LARGEST_OUTPUT:
        raise answers.BadOutput(f"output is larger than {answers.LARGEST_OUTPUT} bytes")
    return answers.parse_output(text)


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
    for field, usual in VARIABLES.items():
        yield from _variable_faults(field, written.get(field, usual))


def _variable_faults(field: str, name: Any) -> Iterator[Fault]:
    if wrong := list(text_faults(field, name, empty=False)):
        yield from wrong
    elif not _VARIABLE.fullmatch(name):
        hint = f"write {field}: {VARIABLES[field]}, and the address into the controller's environment"
        yield Fault(field, "names no variable; an address, which may hold a password, would be stored and shown", hint)
    elif name.startswith("TRIGGERCTL_"):
        yield Fault(field, "is a setting of the controller", f"use a variable of its own, such as {VARIABLES[field]}")


launcher: Launcher = CeleryLauncher()

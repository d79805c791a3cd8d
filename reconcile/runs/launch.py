"""From a claimed run to what its launcher is given: the document and the environment of the contract (INTERFACE)."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from reconcile.decide.authority import is_untrusted
from reconcile.protocols import Launch, Launcher, LaunchError
from revisions.errors import Invalid
from revisions.history import chain
from revisions.ids import utc_text
from revisions.spec.stored import readable_task, readable_trigger, task_spec
from revisions.store.claims import Claimed


def launcher_of(claimed: Claimed, launchers: Mapping[str, Launcher]) -> Launcher:
    """The launcher the run's task names. Raises LaunchError when there is no such task or launcher."""
    kind = readable_task(_task_text(claimed)).launcher
    if kind not in launchers:
        raise LaunchError(f"no launcher {kind!r}; there are {', '.join(sorted(launchers))}")
    return launchers[kind]


def timeout_of(claimed: Claimed) -> timedelta:
    """How long an attempt may take."""
    return task_spec(_task_text(claimed)).timeout


def launch(
    claimed: Claimed,
    launcher: Launcher,
    now: datetime,
    folder: Path,
    root: Path,
    url: str,
    secrets: Mapping[str, str],
    token: str | None = None,
    traceparent: str | None = None,
    installation: str = "",
) -> Launch:
    """What one attempt is started with; the values of its secrets stand in the document and nowhere else (X-12).

    `token` is what the run shows the API at `url` (X-13), `traceparent` what the attempt is part of (O-04),
    `installation` whose it is. Raises LaunchError for a block that the launcher cannot use.
    """
    spec = task_spec(_task_text(claimed))
    try:
        block = launcher.read(spec.block)
    except Invalid as error:
        fault = error.errors[0]
        raise LaunchError(f"{spec.launcher}.{fault.path}: {fault.message}") from None
    environment = {"TRIGGERCTL_RUN_ID": claimed.run.id}
    if url:
        environment["TRIGGERCTL_URL"] = url
    if token is not None:
        environment["TRIGGERCTL_TOKEN"] = token
    if traceparent is not None:
        environment["TRACEPARENT"] = traceparent
    return Launch(
        run_id=claimed.run.id,
        attempt=claimed.run.attempt,
        folder=folder,
        root=root,
        block=block,
        input=document(claimed, now, secrets),
        environment=environment,
        timeout_seconds=spec.timeout.total_seconds(),
        installation=installation,
    )


def document(claimed: Claimed, now: datetime, secrets: Mapping[str, str]) -> dict[str, Any]:
    """What the task sees (X-03, E-15)."""
    run = claimed.run
    scheduled_at = utc_text(run.scheduled_at)
    given = chain.value_of(run.input)
    trigger = readable_trigger(claimed.trigger_spec) if claimed.trigger_spec else None
    if trigger and (name := trigger.schedule.kickoff_time_input):
        given[name] = scheduled_at
    return {
        "run": {
            "id": run.id,
            "project": run.project,
            "domain": run.domain,
            "task": run.task,
            "task_version": run.task_version,
            "trigger": str(claimed.trigger) if claimed.trigger else None,
            "revision": run.revision,
            "source": run.source,
            "attempt": run.attempt,
            "scheduled_at": scheduled_at,
        },
        "input": given,
        "state": chain.value_of(claimed.state) if claimed.state is not None else None,
        "last_success_at": utc_text(claimed.last_success_at) if claimed.last_success_at else None,
        "now": utc_text(now),
        "is_first_run": claimed.last_success_at is None,
        "event": None,
        "secrets": dict(secrets),
        "untrusted": is_untrusted(run.source),
        "allow_destructive": trigger is not None and trigger.allow_destructive,
    }


def _task_text(claimed: Claimed) -> str:
    """Return the task's stored spec. Raises LaunchError when the version is not there."""
    if claimed.task_spec is None:
        raise LaunchError(f"there is no task {claimed.run.task} in version {claimed.run.task_version}")
    return claimed.task_spec

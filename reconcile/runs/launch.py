"""Launch a claimed run: build the input document and the environment of the contract, and call the launcher."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from reconcile.decide.attempt_ends import AttemptOutcome
from reconcile.decide.authority import is_untrusted
from reconcile.decide.secret_masks import NOTHING, Mask
from reconcile.plugins import Launch, Launcher, LaunchError
from reconcile.runs import attempt_secrets
from reconcile.runs.attempt import Attempt, Ended
from reconcile.runs.attempt_secrets import SecretMissing, Vault
from reconcile.runs.workspace import Workspace
from revisions.errors import Invalid
from revisions.history import chain
from revisions.ids import utc_text
from revisions.spec.stored import readable_task, readable_trigger, task_spec
from revisions.store.claims import Claimed


def start_attempt(
    claimed: Claimed,
    launchers: Mapping[str, Launcher],
    workspace: Workspace,
    *,
    vault: Vault,
    task_root: Path,
    url: str,
    token: str | None,
    traceparent: str | None,
    now: datetime,
    monotonic: float,
    stored: int = 0,
) -> Attempt | Ended:
    """Start the work of a claimed run, and return the attempt, or how it ended when it cannot start.

    A launcher that already started the same run and attempt returns that work; `stored` bytes of its log are stored
    then. `now` and `monotonic` are the same instant on two clocks. A stored spec or a launcher that raises anything
    fails this run and no other.
    """
    folder, mask = workspace.folder(claimed.run.id, claimed.run.attempt), NOTHING
    try:
        launcher, timeout = launcher_of(claimed, launchers), timeout_of(claimed)
        secrets = vault.values(claimed)
        hidden = [*secrets.values(), *([token] if token else [])]
        mask = Mask(hidden)
        attempt_secrets.write(folder, hidden)
        work = launcher.start(
            Launch(
                run_id=claimed.run.id,
                attempt=claimed.run.attempt,
                folder=folder,
                root=task_root,
                block=_block(claimed, launcher),
                input=input_document(claimed, now, secrets),
                environment=_environment(claimed, url, token, traceparent),
                timeout_seconds=timeout.total_seconds(),
                installation=workspace.installation,
            )
        )
    except SecretMissing as error:
        return Ended(AttemptOutcome.FAILED, str(error), is_final=True)
    except Exception as error:  # noqa: BLE001 - see above: it fails this run and no other
        message = str(error) if isinstance(error, LaunchError) else f"could not be launched: {error!r}"
        attempt_secrets.remove(folder)
        return Ended(AttemptOutcome.FAILED, message).masked(mask)
    elapsed = max(timedelta(0), now - (claimed.run.started_at or now))
    deadline = monotonic + (timeout - elapsed).total_seconds()
    return Attempt(claimed.run, claimed.trigger, work, deadline, folder=folder, mask=mask, stored=stored)


def launcher_of(claimed: Claimed, launchers: Mapping[str, Launcher]) -> Launcher:
    """Return the launcher that the run's task names. Raises LaunchError when the task or the launcher is missing."""
    kind = readable_task(_task_text(claimed)).launcher
    if kind not in launchers:
        raise LaunchError(f"no launcher {kind!r}; there are {', '.join(sorted(launchers))}")
    return launchers[kind]


def timeout_of(claimed: Claimed) -> timedelta:
    """Return the longest duration of an attempt. Raises LaunchError when the task is missing."""
    return task_spec(_task_text(claimed)).timeout


def input_document(claimed: Claimed, now: datetime, secrets: Mapping[str, str]) -> dict[str, Any]:
    """Return the document that the task reads (X-03, E-15).

    The values of secrets are in it and nowhere else, neither in the environment nor in the database (X-12).
    """
    run = claimed.run
    scheduled_at = utc_text(run.scheduled_at)
    inputs = chain.value_of(run.input)
    trigger = readable_trigger(claimed.trigger_spec) if claimed.trigger_spec else None
    if trigger and (name := trigger.schedule.kickoff_time_input):
        inputs[name] = scheduled_at
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
        "input": inputs,
        "state": chain.value_of(claimed.state) if claimed.state is not None else None,
        "last_success_at": utc_text(claimed.last_success_at) if claimed.last_success_at else None,
        "now": utc_text(now),
        "is_first_run": claimed.last_success_at is None,
        "event": None,
        "secrets": dict(secrets),
        "untrusted": is_untrusted(run.source),
        "allow_destructive": trigger is not None and trigger.allow_destructive,
    }


def _block(claimed: Claimed, launcher: Launcher) -> Any:
    """Return the launcher's typed block. Raises LaunchError for a stored block that this release cannot read."""
    spec = task_spec(_task_text(claimed))
    try:
        return launcher.read(spec.block)
    except Invalid as error:
        fault = error.errors[0]
        raise LaunchError(f"{spec.launcher}.{fault.path}: {fault.message}") from None


def _environment(claimed: Claimed, url: str, token: str | None, traceparent: str | None) -> dict[str, str]:
    """Return the variables of the contract: the run's id, the API with the run's token (X-13), and its trace (O-04)."""
    environment = {"TRIGGERCTL_RUN_ID": claimed.run.id}
    if url:
        environment["TRIGGERCTL_URL"] = url
    if token is not None:
        environment["TRIGGERCTL_TOKEN"] = token
    if traceparent is not None:
        environment["TRACEPARENT"] = traceparent
    return environment


def _task_text(claimed: Claimed) -> str:
    """Return the task's stored spec. Raises LaunchError when the version is missing."""
    if claimed.task_spec is None:
        raise LaunchError(f"there is no task {claimed.run.task} in version {claimed.run.task_version}")
    return claimed.task_spec

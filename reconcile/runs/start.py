"""A claimed run becomes work under way, or it ends before it began."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path

from reconcile.decide.retry import AttemptOutcome
from reconcile.decide.secret_masks import NOTHING, Mask
from reconcile.protocols import Launcher, LaunchError
from reconcile.runs import attempt_secrets, launch
from reconcile.runs.attempt import Attempt, Ended
from reconcile.runs.attempt_secrets import SecretMissing, Vault
from reconcile.runs.workspace import WorkPlace
from revisions.store.claims import Claimed
from revisions.store.runs import Run


class Starting:
    """Starts attempts with these launchers.

    `root` is what tasks' folders are relative to, `url` where the API is, `traceparent` what an attempt is part of.
    """

    def __init__(
        self,
        launchers: Mapping[str, Launcher],
        vault: Vault,
        root: Path,
        url: str,
        traceparent: Callable[[Run], str | None],
    ) -> None:
        self._launchers = launchers
        self._vault = vault
        self._root = root
        self._url = url
        self._traceparent = traceparent

    def start(
        self,
        place: WorkPlace,
        one: Claimed,
        now: datetime,
        monotonic: float,
        token: str | None = None,
        stored: int | None = None,
    ) -> Attempt | Ended:
        """The attempt, or how it ended at once; `stored`: of work that goes on already, how much of its log is known.

        Whatever a stored spec or a plug-in does wrong fails this run alone.
        """
        folder, mask = place.folder(one.run.id, one.run.attempt), NOTHING
        try:
            launcher, timeout = launch.launcher_of(one, self._launchers), launch.timeout_of(one)
            secrets = self._vault.values(one)
            hidden = [*secrets.values(), *([token] if token else [])]
            mask = Mask(hidden)
            attempt_secrets.keep(folder, hidden)
            part_of = self._traceparent(one.run)
            given = launch.launch(
                one, launcher, now, folder, self._root, self._url, secrets, token, part_of, place.installation
            )
            work = launcher.start(given)
        except SecretMissing as error:
            return Ended(AttemptOutcome.FAILED, str(error), is_final=True)
        except Exception as error:  # noqa: BLE001
            said = str(error) if isinstance(error, LaunchError) else f"could not be launched: {error!r}"
            attempt_secrets.forget(folder)
            return Ended(AttemptOutcome.FAILED, said).masked(mask)
        spent = max(timedelta(0), now - (one.run.started_at or now))
        deadline = monotonic + (timeout - spent).total_seconds()
        return Attempt(one.run, one.trigger, work, deadline, folder=folder, mask=mask, stored=stored or 0)

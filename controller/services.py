"""What the surfaces work with, in one value."""

import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from controller.auth import Access
from controller.condition import Condition
from controller.settings import Settings
from reconcile.observations.observation import Observations
from reconcile.protocols import SecretPlaces
from reconcile.runs.attempt_secrets import Vault
from reconcile.runs.callbacks import Completing
from reconcile.runs.manual.backfill import Backfilling
from reconcile.runs.manual.backlogs import Backlogs
from reconcile.runs.manual.fire import Firing
from reconcile.runs.manual.orders import Approving, Retrying
from reconcile.runs.manual.state import Seeding
from reconcile.triggers.calendars import Calendaring
from reconcile.triggers.credentials import Credentials
from reconcile.triggers.history.rebuild import Rebuilding
from reconcile.triggers.history.transfer import Exporting, Importing
from reconcile.triggers.history.verify import Verifying
from reconcile.triggers.holds import Holds
from revisions.store.database import Database


class SchemaGate:
    """Lets requests through once the database was seen to have this release's schema; asks again after a failure."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._seen = False

    def check(self) -> None:
        """Raises Unavailable when the database is gone, not set up, or of another schema (R-19)."""
        if self._seen:
            return
        with self._lock:
            if not self._seen:
                self._database.check_schema()
                self._seen = True

    def forget(self) -> None:
        """Something went wrong: the next request looks again."""
        self._seen = False


def vault(settings: Settings) -> Vault:
    """Where the secrets of runs are."""
    folder = settings.secrets_dir.absolute() if settings.secrets_dir else None
    places = SecretPlaces(folder, settings.secrets_namespace)
    return Vault(tuple(settings.secrets_from.split(",")), places, settings.sharing)


@dataclass(frozen=True, slots=True)
class Services:
    """The changes and the reads behind API and web page; who wants to be woken listens to the observations."""

    settings: Settings
    database: Database
    observations: Observations
    firing: Firing
    completing: Completing
    backfilling: Backfilling
    retrying: Retrying
    approving: Approving
    calendaring: Calendaring
    holding: Holds
    backlogs: Backlogs
    seeding: Seeding
    verifying: Verifying
    rebuilding: Rebuilding
    exporting: Exporting
    importing: Importing
    credentials: Credentials
    access: Access
    gate: SchemaGate
    condition: Condition

    @classmethod
    def over(cls, database: Database, settings: Settings, observations: Observations | None = None) -> Self:
        """All services over one database."""
        heard = observations or Observations()
        credentials = Credentials(database, heard)
        return cls(
            settings=settings,
            database=database,
            observations=heard,
            firing=Firing(database, heard),
            completing=Completing(
                database,
                heard,
                timedelta(seconds=settings.lease_seconds),
                vault=vault(settings),
                work_dir=settings.attempts,
            ),
            backfilling=Backfilling(database, heard),
            retrying=Retrying(database, heard),
            approving=Approving(database, heard),
            calendaring=Calendaring(database, heard),
            holding=Holds(database, heard),
            backlogs=Backlogs(database, heard, settings.pace),
            seeding=Seeding(database, heard),
            verifying=Verifying(database),
            rebuilding=Rebuilding(database, heard),
            exporting=Exporting(database),
            importing=Importing(database, heard),
            credentials=credentials,
            access=Access(database, settings, credentials, heard),
            gate=SchemaGate(database),
            condition=Condition(database.clock.monotonic, settings.resync_interval),
        )

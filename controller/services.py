"""What the surfaces work with, in one value."""

import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from controller.auth import Access
from controller.condition import Condition
from controller.settings import Settings
from reconcile.attempts.completing import Completing
from reconcile.attempts.vault import Vault
from reconcile.byhand.approving import Approving
from reconcile.byhand.backfilling import Backfilling
from reconcile.byhand.backlogs import Backlogs
from reconcile.byhand.firing import Firing
from reconcile.byhand.retrying import Retrying
from reconcile.byhand.seeding import Seeding
from reconcile.calendaring import Calendaring
from reconcile.credentials import Credentials
from reconcile.deploying import Deploying
from reconcile.history.exporting import Exporting
from reconcile.history.importing import Importing
from reconcile.history.rebuilding import Rebuilding
from reconcile.history.verifying import Verifying
from reconcile.holding import Holding
from reconcile.observations.observation import Observations
from reconcile.ports import SecretPlaces
from reconcile.registering import Registering
from reconcile.reports.accounting import Accounting
from reconcile.reports.auditing import Auditing
from reconcile.reports.examining import Examining
from reconcile.reports.explaining import Explaining
from revisions.clock import HostClock
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
    deploying: Deploying
    registering: Registering
    firing: Firing
    completing: Completing
    backfilling: Backfilling
    retrying: Retrying
    approving: Approving
    calendaring: Calendaring
    holding: Holding
    backlogs: Backlogs
    seeding: Seeding
    accounting: Accounting
    auditing: Auditing
    explaining: Explaining
    examining: Examining
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
        deploying = Deploying(database, heard, settings.sharing)
        return cls(
            settings=settings,
            database=database,
            observations=heard,
            deploying=deploying,
            registering=Registering(database, deploying, heard),
            firing=Firing(database, heard),
            completing=Completing(
                database,
                heard,
                deploying,
                timedelta(seconds=settings.lease_seconds),
                vault=vault(settings),
                work_dir=settings.attempts,
            ),
            backfilling=Backfilling(database, heard),
            retrying=Retrying(database, heard),
            approving=Approving(database, heard),
            calendaring=Calendaring(database, heard),
            holding=Holding(database, heard),
            backlogs=Backlogs(database, heard, settings.pace),
            seeding=Seeding(database, heard),
            accounting=Accounting(database),
            auditing=Auditing(database, settings.pace.grace),
            explaining=Explaining(database),
            examining=Examining(database, settings.pace, HostClock(), settings.listen_url),
            verifying=Verifying(database),
            rebuilding=Rebuilding(database, heard),
            exporting=Exporting(database),
            importing=Importing(database, heard),
            credentials=credentials,
            access=Access(database, settings, credentials, heard),
            gate=SchemaGate(database),
            condition=Condition(database.clock.monotonic, settings.resync_interval),
        )

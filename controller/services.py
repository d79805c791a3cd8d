"""Settings, database, access control and condition of one process, as the API and the web page share them."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from controller.auth.access import Access
from controller.settings import Settings
from reconcile.observations.observation import Observation, Observations
from reconcile.observations.passes import LoopResynced
from reconcile.plugins import SecretPlaces
from reconcile.runs.attempt_secrets import Vault
from revisions.errors import Invalid, Unavailable
from revisions.history.checkpoints import PrivateKey, PublicKey
from revisions.store.database import Database

MISSED_RESYNCS = 3
LEAST_PATIENCE = timedelta(minutes=1)


class Condition:
    """Alive while all its parts run; ready while its loop resyncs and the process has not been told to stop.

    `monotonic` returns seconds; `interval` is the time between two resyncs.
    """

    def __init__(self, monotonic: Callable[[], float], interval: timedelta) -> None:
        self._monotonic = monotonic
        self._patience = max(MISSED_RESYNCS * interval, LEAST_PATIENCE).total_seconds()
        self._parts: dict[str, Callable[[], bool]] = {}
        self._resynced_at: float | None = None
        self._is_stopping = False

    def begin(self, parts: dict[str, Callable[[], bool]]) -> None:
        """Register the parts that run from now on, each with a function that returns whether it still runs."""
        self._parts = parts
        self._resynced_at = self._monotonic() if "loop" in parts else None

    def leave(self) -> None:
        """Stop being ready; parts may end from now on."""
        self._is_stopping = True

    def note_resync(self, observation: Observation) -> None:
        """Note the time of each resync; other observations change nothing."""
        if isinstance(observation, LoopResynced):
            self._resynced_at = self._monotonic()

    def check_alive(self) -> None:
        """Raise Unavailable if a part has ended by itself: only a restart brings it back."""
        ended = [part for part, lives in self._parts.items() if not lives()]
        if ended and not self._is_stopping:
            raise Unavailable.hinted("process", f"has ended by itself: {', '.join(ended)}", "restart it")

    def check_ready(self) -> None:
        """Raise Unavailable if the process should not get new requests."""
        if self._is_stopping:
            raise Unavailable.hinted("process", "is stopping", "ask another replica")
        self.check_alive()
        if self._resynced_at is not None and (since := self._monotonic() - self._resynced_at) > self._patience:
            detail = f"the loop has not looked at the database for {since:.0f} s"
            raise Unavailable.hinted("process", detail, "see what it logs; `loop.failed` says why a pass failed")


class SchemaGate:
    """Refuses requests until the database has been seen with this release's schema; checks again after a failure."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._seen = False

    def check(self) -> None:
        """Check the schema. Raises Unavailable if the database is gone, not set up, or of another schema (R-19)."""
        if self._seen:
            return
        with self._lock:
            if not self._seen:
                self._database.check_schema()
                self._seen = True

    def forget(self) -> None:
        """Have the next request check the schema again."""
        self._seen = False


def vault(settings: Settings) -> Vault:
    """Return the vault from which runs get their secrets."""
    folder = settings.secrets_dir.absolute() if settings.secrets_dir else None
    places = SecretPlaces(folder, settings.secrets_namespace)
    return Vault(tuple(settings.secrets_from.split(",")), places, settings.sharing)


def signing_key(settings: Settings) -> PrivateKey:
    """Return the key that signs checkpoints. Raises Invalid if none is configured or its file cannot be read."""
    path = settings.checkpoint_key_file
    if path is None:
        hint = "`triggerctl checkpoint --new-key FILE` makes one, TRIGGERCTL_CHECKPOINT_KEY_FILE=FILE names it"
        raise Invalid.at("checkpoint_key_file", "no key signs checkpoints", hint)
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError):
        raise Invalid.at("checkpoint_key_file", f"{path} cannot be read", "name a file that can") from None
    return PrivateKey.parse(text, "checkpoint_key_file")


def expected_key(settings: Settings, given: str | None) -> PublicKey | None:
    """Return the key that must have signed: the given one, else the configured one, else that of the signing key."""
    if given is not None:
        return PublicKey.parse(given)
    if settings.checkpoint_public_key is not None:
        return PublicKey.parse(settings.checkpoint_public_key, "checkpoint_public_key")
    return signing_key(settings).public if settings.checkpoint_key_file else None


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that a request needs besides its own content. Metrics, logs and traces subscribe to `observations`."""

    settings: Settings
    database: Database
    observations: Observations
    access: Access
    gate: SchemaGate
    condition: Condition

    @classmethod
    def over(cls, database: Database, settings: Settings, observations: Observations | None = None) -> Self:
        """Build the services of one process over a database; without `observations` nobody subscribes to them."""
        observations = observations or Observations()
        return cls(
            settings=settings,
            database=database,
            observations=observations,
            access=Access(database, settings, observations),
            gate=SchemaGate(database),
            condition=Condition(database.clock.monotonic, settings.resync_interval),
        )

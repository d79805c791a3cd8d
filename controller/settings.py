"""Every setting of the controller: command line before environment before file, each value checked where it enters."""

import difflib
import hashlib
import ipaddress
import os
import tempfile
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings.exceptions import SettingsError

from reconcile.decide.admission import Pace
from reconcile.decide.authority import Sharing, grant_of
from reconcile.decide.retention import Retention
from reconcile.plugins import secret_sources
from revisions.errors import Fault, Invalid
from revisions.ids import name_faults
from revisions.spec import documents
from revisions.spec.notation import ScheduleError, duration

PREFIX = "TRIGGERCTL_"
FILES = ("config/triggerctl.yaml", "triggerctl.yaml")
"""Where settings are looked for, in the folder of the start, when TRIGGERCTL_CONFIG names no file."""
COLLECTORS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""Where OpenTelemetry's own variables say where traces go."""
OTHERS = frozenset({"CONFIG", "SERVER", "TOKEN", "DEBUG", "RUN_ID", "INPUT", "OUTPUT"})
"""What else is told by variables that begin like those of settings, to the command and to tasks."""
OF_FOLDERS = frozenset({"origin"})
"""What the file says beside settings where the folder of the start is also one that `triggerctl apply` takes."""


def _span(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value
    try:
        return duration(value)
    except ScheduleError as error:
        raise ValueError(f"{error.message}; {error.hint}") from None


def _address(value: str) -> str:
    host, _, port = value.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{value!r} is not host:port; write 127.0.0.1:8080")
    return value


def _issuer(value: str | None) -> str | None:
    if value is not None and not is_protected(value):
        raise ValueError(f"{value!r} is not https://…")
    return value


def _collector(value: str | None) -> str | None:
    """Where traces are sent; what it takes to be let in belongs into OTEL_EXPORTER_OTLP_HEADERS, which nobody shows."""
    parts = urlsplit(value or "http://none")
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ValueError(f"{value!r} is not http://host:4318 or https://…, without credentials")
    return value


def _grants(value: dict[str, str]) -> dict[str, str]:
    """A grant in a project that nothing can be called lets nobody in."""
    for text in value.values():
        _named({"project": project} for project in grant_of(text).reach.projects or ())
    return value


def _shared(value: dict[str, list[str]]) -> dict[str, list[str]]:
    """A scope or a project that nothing can be called would keep nothing to anybody."""
    _named({"secret_scope": scope} for scope in value)
    _named({"project": project} for projects in value.values() for project in projects)
    return value


def _named(names: Iterable[dict[str, str]]) -> None:
    for name in names:
        for fault in name_faults("", **name):
            raise ValueError(f"{fault.message}; {fault.hint}")


def is_protected(url: str) -> bool:
    """Whether nobody on the way can put in something else: keys that come over a network unprotected are anybody's."""
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _kinds(value: str) -> str:
    kinds = [kind.strip() for kind in value.split(",")]
    for kind in kinds:
        if kind not in secret_sources():
            raise ValueError(f"{kind!r} is no source of secrets; there are {', '.join(secret_sources())}")
    return ",".join(kinds)


def _every(value: timedelta) -> timedelta:
    if value < timedelta(seconds=1):
        raise ValueError("is less than 1s")
    return value


def _kept(value: timedelta) -> timedelta:
    if timedelta(0) < value < timedelta(days=1):
        raise ValueError("is less than 1d; 0 keeps for ever")
    return value


def _a_year(value: timedelta) -> timedelta:
    """Budgets are of a year at most."""
    if timedelta(0) < value < timedelta(days=367):
        raise ValueError("is less than 367d, and a budget may be for a year; 0 keeps for ever")
    return value


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


Span = Annotated[timedelta, BeforeValidator(_span), Field(ge=timedelta(0))]
Kept = Annotated[Span, AfterValidator(_kept)]
Interval = Annotated[Span, AfterValidator(_every)]


class Settings(BaseSettings):
    """All settings; made by `load`, which answers what is wrong in the words of the setting."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="forbid", frozen=True, validate_default=True
    )

    database_url: str = "sqlite:///triggerctl.db"
    listen_url: str | None = None
    listen: Annotated[str, AfterValidator(_address)] = "127.0.0.1:8080"
    url: str | None = None
    access: Annotated[Literal["auto", "required"], BeforeValidator(_lower)] = "auto"
    oidc_issuer: Annotated[str | None, AfterValidator(_issuer)] = None
    oidc_audience: str | None = None
    oidc_actor_claim: str = "sub"
    oidc_claim: str = "groups"
    oidc_grants: Annotated[dict[str, str], AfterValidator(_grants)] = {}
    oidc_remember: Span = Field("90d", validate_default=True)
    oidc_key_wait: Span = Field("10s", validate_default=True)
    enabled: bool = True
    resync_interval: Interval = Field("30s", validate_default=True)
    live_grace: Span = Field("60s", validate_default=True)
    max_catchup_runs_per_loop: Annotated[int, Field(ge=0)] = 100
    execution_qps: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 10.0
    execution_burst: Annotated[int, Field(ge=1)] = 20
    max_running: Annotated[int, Field(ge=1)] = 16
    lease_seconds: Annotated[int, Field(ge=1)] = 60
    stop_grace: Span = Field("10s", validate_default=True)
    retain_runs: Kept = Field("90d", validate_default=True)
    retain_logs: Kept = Field("30d", validate_default=True)
    retain_occurrences: Kept = Field("365d", validate_default=True)
    retain_costs: Annotated[Kept, AfterValidator(_a_year)] = Field("1095d", validate_default=True)
    retain_changes: Kept = Field("30d", validate_default=True)
    task_root: Path | None = None
    work_dir: Path | None = None
    secrets_from: Annotated[str, AfterValidator(_kinds)] = "environment,files"
    secrets_dir: Path | None = None
    secrets_namespace: str | None = None
    secret_scopes: Annotated[dict[str, list[str]], AfterValidator(_shared)] = {}
    checkpoint_key_file: Path | None = None
    checkpoint_public_key: str | None = None
    tracing_url: Annotated[str | None, AfterValidator(_collector)] = None
    tracing_ratio: Annotated[float | None, Field(ge=0, le=1)] = None
    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lower)] = "info"
    log_format: Annotated[Literal["json", "text"], BeforeValidator(_lower)] = "text"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, InitSettingsSource(settings_cls, _from_file(set(cls.model_fields)))

    @field_validator("oidc_audience")
    @classmethod
    def _said(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None and info.data.get("oidc_issuer") is not None:
            raise ValueError("is missing beside oidc_issuer, so that a token for any other service would do here")
        return value

    @property
    def is_guarded(self) -> bool:
        """Whether these settings alone have everybody say who he is."""
        return self.access == "required" or self.oidc_issuer is not None

    @property
    def is_traced(self) -> bool:
        """Whether traces are sent: to `tracing_url`, or as OpenTelemetry's own variables say."""
        named = self.tracing_url or any(os.environ.get(name) for name in COLLECTORS)
        refused = (os.environ.get(name, "").strip().lower() for name in ("OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER"))
        return bool(named) and not {"true", "none"} & set(refused)

    @property
    def is_safe(self) -> bool:
        """Whether only this machine can reach the address, or everybody must say who he is in any case."""
        return self.is_guarded or is_loopback(self.host)

    @property
    def host(self) -> str:
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.listen.rpartition(":")[2])

    @property
    def pace(self) -> Pace:
        """How much may start."""
        return Pace(
            resync_interval=self.resync_interval,
            live_grace=self.live_grace,
            max_catchup_runs_per_loop=self.max_catchup_runs_per_loop,
            execution_qps=self.execution_qps,
            execution_burst=self.execution_burst,
        )

    @property
    def retention(self) -> Retention:
        """How long what has happened is kept."""
        return Retention(
            runs=self.retain_runs,
            logs=self.retain_logs,
            occurrences=self.retain_occurrences,
            costs=self.retain_costs,
            changes=self.retain_changes,
        )

    @property
    def sharing(self) -> Sharing:
        """Which projects may use which scope of secrets."""
        return Sharing(self.secret_scopes)

    @property
    def public_url(self) -> str:
        """The address handed to tasks."""
        return (self.url or f"http://{self.listen}").rstrip("/")

    @property
    def root(self) -> Path:
        """What relative `cwd` and `path` of tasks are relative to."""
        return (self.task_root or Path()).absolute()

    @property
    def attempts(self) -> Path:
        """The folder of attempts: the same one after a restart, another one for another database."""
        if self.work_dir:
            return self.work_dir.absolute()
        url = self.database_url
        if url.startswith("sqlite:///"):
            url = f"sqlite:///{Path(url.removeprefix('sqlite:///')).absolute()}"
        return _state_folder() / hashlib.sha256(url.encode()).hexdigest()[:16]


def load(**given: Any) -> Settings:
    """The settings; `given` come from the command line, None meaning not given.

    Raises Malformed for a file that cannot be read as YAML, and Invalid, naming each wrong setting and where it stands.
    """
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except SettingsError as error:
        raise Invalid.at("settings", str(error)) from None
    except ValidationError as error:
        faults = [
            _fault(str(details["loc"][0]), details["msg"], details["input"], given)
            for details in error.errors(include_url=False)
        ]
        raise Invalid(f"{faults[0].path}: {faults[0].message}", faults) from None


def mistyped() -> dict[str, str]:
    """Variables that are nearly a setting's, each with that one: nobody reads them, and whoever set them thinks so.

    Those that are like none are left alone: Kubernetes makes some of a Service's name.
    """
    known = {name.upper() for name in Settings.model_fields} | OTHERS
    given = {name.removeprefix(PREFIX) for name in os.environ if name.startswith(PREFIX)}
    near = {name: difflib.get_close_matches(name, sorted(known), 1, cutoff=0.8) for name in sorted(given - known)}
    return {f"{PREFIX}{name}": f"{PREFIX}{found[0]}" for name, found in near.items() if found}


def _fault(name: str, message: str, value: Any, given: dict[str, Any]) -> Fault:
    said = message.removeprefix("Value error, ")
    if said == message:
        said = f"{value!r}: {message[0].lower()}{message[1:]}"
    if given.get(name) is not None:
        place = f"the option --{name.replace('_', '-')}"
    elif os.environ.get(PREFIX + name.upper()):
        place = f"the environment variable {PREFIX}{name.upper()}"
    else:
        place = f"{_file()}"
    return Fault(name, said, f"it stands in {place}")


def _file() -> Path | None:
    named = os.environ.get(f"{PREFIX}CONFIG")
    if named:
        return Path(named)
    return next((Path(name) for name in FILES if Path(name).is_file()), None)


def _from_file(known: set[str]) -> dict[str, Any]:
    path = _file()
    if path is None:
        return {}
    try:
        found = documents.load(path.read_text("utf-8-sig"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise Invalid.at(f"{PREFIX}CONFIG", f"{path} cannot be read: {why}", "name a file that can be read") from None
    if not found:
        return {}
    if len(found) > 1 or not isinstance(found[0], dict):
        raise Invalid.at(str(path), "must be one mapping of settings", "write name: value lines")
    given = {name: value for name, value in found[0].items() if name not in OF_FOLDERS}
    faults = [Fault.unknown(f"{path}: {name}", str(name), known, "setting") for name in given if name not in known]
    if faults:
        raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)
    return given


def _state_folder() -> Path:
    """A folder of this user's that lives as long as can be."""
    state = os.environ.get("XDG_STATE_HOME")
    home = os.environ.get("HOME")
    if state and Path(state).is_absolute():
        return Path(state) / "triggerctl"
    if home and os.access(home, os.W_OK):
        return Path(home) / ".local/state/triggerctl"
    return Path(tempfile.gettempdir()) / f"triggerctl-{os.getuid()}"

"""Settings of the controller, the parts that one process can run, and the installed version.

The command line takes precedence over the environment, and that over the file.
"""

import hashlib
import ipaddress
import os
import tempfile
from collections.abc import Iterable
from datetime import timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings.exceptions import SettingsError

from controller.settings_sources import PREFIX, read_settings_file, settings_file
from reconcile.decide.admission import Pace
from reconcile.decide.authority import Sharing, grant_of
from reconcile.decide.retention import Retention
from reconcile.plugins import secret_sources
from revisions.errors import Fault, Invalid
from revisions.ids import name_faults
from revisions.spec.notation import ScheduleError, duration

OTEL_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""OpenTelemetry's own variables for the address that receives traces."""


def _parse_span(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value
    try:
        return duration(value)
    except ScheduleError as error:
        raise ValueError(f"{error.message}; {error.hint}") from None


def _check_address(value: str) -> str:
    host, _, port = value.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{value!r} is not host:port; write 127.0.0.1:8080")
    return value


def _check_issuer(value: str | None) -> str | None:
    if value is not None and not is_protected(value):
        raise ValueError(f"{value!r} is not https://…")
    return value


def _check_collector(value: str | None) -> str | None:
    """Refuse credentials in the address: they belong into OTEL_EXPORTER_OTLP_HEADERS, which is never shown."""
    parts = urlsplit(value or "http://none")
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ValueError(f"{value!r} is not http://host:4318 or https://…, without credentials")
    return value


def _check_grants(value: dict[str, str]) -> dict[str, str]:
    """Refuse a grant in a project whose name is not valid, for it could never apply."""
    for text in value.values():
        _check_names({"project": project} for project in grant_of(text).reach.projects or ())
    return value


def _check_scopes(value: dict[str, list[str]]) -> dict[str, list[str]]:
    """Refuse a scope or a project whose name is not valid, for it would protect nothing."""
    _check_names({"secret_scope": scope} for scope in value)
    _check_names({"project": project} for projects in value.values() for project in projects)
    return value


def _check_names(names: Iterable[dict[str, str]]) -> None:
    for name in names:
        for fault in name_faults("", **name):
            raise ValueError(f"{fault.message}; {fault.hint}")


def is_protected(url: str) -> bool:
    """Return whether what is read from the URL cannot be altered on the way: by TLS, or on this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_secret_sources(value: str) -> str:
    kinds = [kind.strip() for kind in value.split(",")]
    for kind in kinds:
        if kind not in secret_sources():
            raise ValueError(f"{kind!r} is no source of secrets; there are {', '.join(secret_sources())}")
    return ",".join(kinds)


def _check_interval(value: timedelta) -> timedelta:
    if value < timedelta(seconds=1):
        raise ValueError("is less than 1s")
    return value


def _check_retention(value: timedelta) -> timedelta:
    if timedelta(0) < value < timedelta(days=1):
        raise ValueError("is less than 1d; 0 keeps for ever")
    return value


def _check_cost_retention(value: timedelta) -> timedelta:
    """Refuse less than a year, the longest period of a budget."""
    if timedelta(0) < value < timedelta(days=367):
        raise ValueError("is less than 367d, and a budget may be for a year; 0 keeps for ever")
    return value


def _lowercase(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


Span = Annotated[timedelta, BeforeValidator(_parse_span), Field(ge=timedelta(0))]
Kept = Annotated[Span, AfterValidator(_check_retention)]
Interval = Annotated[Span, AfterValidator(_check_interval)]


class Settings(BaseSettings):
    """All settings. `load` creates them, and names in its errors the setting and its source."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="forbid", frozen=True, validate_default=True
    )

    database_url: str = "sqlite:///triggerctl.db"
    listen_url: str | None = None
    listen: Annotated[str, AfterValidator(_check_address)] = "127.0.0.1:8080"
    url: str | None = None
    access: Annotated[Literal["auto", "required"], BeforeValidator(_lowercase)] = "auto"
    oidc_issuer: Annotated[str | None, AfterValidator(_check_issuer)] = None
    oidc_audience: str | None = None
    oidc_actor_claim: str = "sub"
    oidc_claim: str = "groups"
    oidc_grants: Annotated[dict[str, str], AfterValidator(_check_grants)] = {}
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
    retain_costs: Annotated[Kept, AfterValidator(_check_cost_retention)] = Field("1095d", validate_default=True)
    retain_changes: Kept = Field("30d", validate_default=True)
    task_root: Path | None = None
    work_dir: Path | None = None
    secrets_from: Annotated[str, AfterValidator(_check_secret_sources)] = "environment,files"
    secrets_dir: Path | None = None
    secrets_namespace: str | None = None
    secret_scopes: Annotated[dict[str, list[str]], AfterValidator(_check_scopes)] = {}
    checkpoint_key_file: Path | None = None
    checkpoint_public_key: str | None = None
    tracing_url: Annotated[str | None, AfterValidator(_check_collector)] = None
    tracing_ratio: Annotated[float | None, Field(ge=0, le=1)] = None
    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lowercase)] = "info"
    log_format: Annotated[Literal["json", "text"], BeforeValidator(_lowercase)] = "text"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, InitSettingsSource(settings_cls, read_settings_file(cls.model_fields))

    @field_validator("oidc_audience")
    @classmethod
    def _check_audience(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None and info.data.get("oidc_issuer") is not None:
            raise ValueError("is missing beside oidc_issuer, so that a token for any other service would do here")
        return value

    @property
    def is_guarded(self) -> bool:
        """True if these settings alone require credentials, regardless of tokens in the database."""
        return self.access == "required" or self.oidc_issuer is not None

    @property
    def is_traced(self) -> bool:
        """True if traces are sent, to `tracing_url` or as OpenTelemetry's own variables say."""
        endpoint = self.tracing_url or any(os.environ.get(name) for name in OTEL_ENDPOINTS)
        switches = (os.environ.get(name, "").strip().lower() for name in ("OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER"))
        return bool(endpoint) and not {"true", "none"} & set(switches)

    @property
    def is_safe(self) -> bool:
        """True if only this machine can reach the address, or credentials are required in any case."""
        return self.is_guarded or is_loopback(self.host)

    @property
    def host(self) -> str:
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.listen.rpartition(":")[2])

    @property
    def pace(self) -> Pace:
        """Limits on starts."""
        return Pace(
            resync_interval=self.resync_interval,
            live_grace=self.live_grace,
            max_catchup_runs_per_loop=self.max_catchup_runs_per_loop,
            execution_qps=self.execution_qps,
            execution_burst=self.execution_burst,
        )

    @property
    def retention(self) -> Retention:
        """Retention periods."""
        return Retention(
            runs=self.retain_runs,
            logs=self.retain_logs,
            occurrences=self.retain_occurrences,
            costs=self.retain_costs,
            changes=self.retain_changes,
        )

    @property
    def sharing(self) -> Sharing:
        """Projects that may use each scope of secrets."""
        return Sharing(self.secret_scopes)

    @property
    def public_url(self) -> str:
        """URL of the controller, as tasks are given it."""
        return (self.url or f"http://{self.listen}").rstrip("/")

    @property
    def root(self) -> Path:
        """Folder to which relative `cwd` and `path` of tasks are relative."""
        return (self.task_root or Path()).absolute()

    @property
    def attempts(self) -> Path:
        """Folder of attempts: the same after a restart, and a different one for each database."""
        if self.work_dir:
            return self.work_dir.absolute()
        url = self.database_url
        if url.startswith("sqlite:///"):
            url = f"sqlite:///{Path(url.removeprefix('sqlite:///')).absolute()}"
        return _state_folder() / hashlib.sha256(url.encode()).hexdigest()[:16]


def load(**options: Any) -> Settings:
    """Return the settings. `options` come from the command line; None means that the option was not given.

    Raises Malformed for a file that is not YAML, and Invalid with a fault for each wrong setting and its source.
    """
    try:
        return Settings(**{name: value for name, value in options.items() if value is not None})
    except SettingsError as error:
        raise Invalid.at("settings", str(error)) from None
    except ValidationError as error:
        faults = [
            _fault(str(details["loc"][0]), details["msg"], details["input"], options)
            for details in error.errors(include_url=False)
        ]
        raise Invalid(f"{faults[0].path}: {faults[0].message}", faults) from None


def _fault(name: str, pydantic_message: str, value: Any, options: dict[str, Any]) -> Fault:
    message = pydantic_message.removeprefix("Value error, ")
    if message == pydantic_message:  # not one of ours, so it does not name the value
        message = f"{value!r}: {message[0].lower()}{message[1:]}"
    if options.get(name) is not None:
        source = f"the option --{name.replace('_', '-')}"
    elif os.environ.get(PREFIX + name.upper()):
        source = f"the environment variable {PREFIX}{name.upper()}"
    else:
        source = f"{settings_file()}"
    return Fault(name, message, f"it comes from {source}")


def _state_folder() -> Path:
    """Return the most durable folder of this user that can be written."""
    state = os.environ.get("XDG_STATE_HOME")
    home = os.environ.get("HOME")
    if state and Path(state).is_absolute():
        return Path(state) / "triggerctl"
    if home and os.access(home, os.W_OK):
        return Path(home) / ".local/state/triggerctl"
    return Path(tempfile.gettempdir()) / f"triggerctl-{os.getuid()}"


PARTS = ("api", "web", "loop", "runner")


try:
    VERSION = version("triggerctl")
except PackageNotFoundError:  # run from a checkout without installation
    VERSION = "0+checkout"

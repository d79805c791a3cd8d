"""Settings: their sources, and the messages for wrong ones."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from controller import settings
from controller.settings import Settings
from controller.settings_sources import mistyped_variables
from revisions.errors import Invalid, Malformed
from revisions.spec import documents

ROOT = Path(__file__).parents[2]


def test_the_shipped_file_names_every_setting_at_its_default() -> None:
    """L-02: uncommented, config/triggerctl.yaml has every default, each below a comment."""
    lines = (ROOT / "config/triggerctl.yaml").read_text().splitlines()
    given = [line.removeprefix("# ") for line in lines if line.startswith("# ") and _is_setting(line)]
    shipped = documents.load("\n".join(given))[0]
    defaults = {name: field.default for name, field in Settings.model_fields.items()}
    assert shipped == defaults
    assert all(line.startswith("#") or not line for line in lines)
    for name in defaults:
        place = next(index for index, line in enumerate(lines) if line.startswith(f"# {name}:"))
        assert lines[place - 1].startswith("# ")


def _is_setting(line: str) -> bool:
    return line.removeprefix("# ").partition(":")[0] in Settings.model_fields


def test_the_command_line_precedes_the_environment_and_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """L-02: setting by setting."""
    (tmp_path / "triggerctl.yaml").write_text("execution_qps: 1.5\nresync_interval: 5m\nmax_running: 3\n")
    monkeypatch.setenv("TRIGGERCTL_RESYNC_INTERVAL", "7s")
    monkeypatch.setenv("TRIGGERCTL_MAX_RUNNING", "4")
    loaded = settings.load(max_running=5, database_url=None)
    assert (loaded.execution_qps, loaded.resync_interval.total_seconds(), loaded.max_running) == (1.5, 7, 5)
    assert loaded.database_url == "sqlite:///triggerctl.db"


def test_another_file_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """L-02: TRIGGERCTL_CONFIG precedes the folder's files, of which config/ comes first."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config/triggerctl.yaml").write_text("max_running: 2\n")
    (tmp_path / "triggerctl.yaml").write_text("max_running: 3\n")
    assert settings.load().max_running == 2
    (tmp_path / "other.yaml").write_text("max_running: 9\n")
    monkeypatch.setenv("TRIGGERCTL_CONFIG", "other.yaml")
    assert settings.load().max_running == 9


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("resync_interval", "soon"),
        ("resync_interval", "0s"),
        ("execution_qps", "-1"),
        ("execution_qps", "nan"),
        ("execution_burst", "0"),
        ("max_running", "many"),
        ("enabled", "perhaps"),
        ("listen", "8080"),
        ("listen", "127.0.0.1:99999"),
        ("access", "open"),
        ("oidc_issuer", "http://issuer.example"),
        ("oidc_grants", '{"team": "owner"}'),
        ("oidc_grants", '{"team": "viewer:"}'),
        ("oidc_grants", '{"team": "viewer:Acme"}'),
        ("secret_scopes", '{"Client 7": ["acme"]}'),
        ("secret_scopes", '{"client-7": ["*"]}'),
        ("secret_scopes", '{"client-7": "acme"}'),
        ("log_format", "xml"),
        ("tracing_url", "collector:4318"),
        ("tracing_url", "http://key:secret@collector:4318"),
        ("tracing_ratio", "1.5"),
    ],
)
def test_a_wrong_value_is_reported_with_its_setting_and_source(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """U-01, O-06: the setting, the fault, and where the value comes from."""
    monkeypatch.setenv(f"TRIGGERCTL_{name.upper()}", value)
    with pytest.raises(Invalid) as refused:
        settings.load()
    fault = refused.value.errors[0]
    assert fault.path == name
    assert "timedelta" not in fault.message
    assert f"TRIGGERCTL_{name.upper()}" in fault.hint


def test_an_issuer_requires_an_audience(monkeypatch: pytest.MonkeyPatch) -> None:
    """O-06: otherwise a token for another service would be accepted."""
    monkeypatch.setenv("TRIGGERCTL_OIDC_ISSUER", "https://issuer.example")
    with pytest.raises(Invalid) as refused:
        settings.load()
    assert refused.value.errors[0].path == "oidc_audience"
    assert settings.load(oidc_audience="triggerctl").is_guarded


def test_an_unknown_key_in_the_file_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    """R-18: the message names the file."""
    (tmp_path / "triggerctl.yaml").write_text("resync_intervall: 5s\n")
    with pytest.raises(Invalid) as refused:
        settings.load()
    assert refused.value.errors[0].hint == "did you mean resync_interval?"
    assert "triggerctl.yaml" in refused.value.errors[0].path


def test_a_mistyped_variable_is_found_with_the_setting_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    """L-02: variables of tasks, secrets and Kubernetes Services are not mistyped."""
    for name in ("SECRET__ACME__TOKEN", "PORT", "SERVICE_HOST", "PORT_8080_TCP_ADDR", "RUN_ID", "CONFIG", "TOKEN"):
        monkeypatch.setenv(f"TRIGGERCTL_{name}", "x")
    assert mistyped_variables(Settings.model_fields) == {}
    monkeypatch.setenv("TRIGGERCTL_EXECUTION_QSP", "5")
    monkeypatch.setenv("TRIGGERCTL_RESYNC_INTERVALL", "5s")
    assert mistyped_variables(Settings.model_fields) == {
        "TRIGGERCTL_EXECUTION_QSP": "TRIGGERCTL_EXECUTION_QPS",
        "TRIGGERCTL_RESYNC_INTERVALL": "TRIGGERCTL_RESYNC_INTERVAL",
    }


def test_an_unreadable_settings_file_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """U-01: a missing one by its name, a malformed one with line and column."""
    monkeypatch.setenv("TRIGGERCTL_CONFIG", "missing.yaml")
    with pytest.raises(Invalid, match=r"missing\.yaml"):
        settings.load()
    (tmp_path / "bad.yaml").write_text("a: [\n")
    monkeypatch.setenv("TRIGGERCTL_CONFIG", "bad.yaml")
    with pytest.raises(Malformed, match=r"bad\.yaml, line 2, column 1"):
        settings.load()


def test_each_database_has_its_own_folder_of_attempts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """X-10: the same after a restart, so that running attempts are found again."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    first = settings.load()
    assert first.attempts == settings.load(database_url=f"sqlite:///{tmp_path}/triggerctl.db").attempts
    assert first.attempts != settings.load(database_url="sqlite:///other.db").attempts
    assert first.attempts.is_relative_to(tmp_path / "state")
    assert settings.load(work_dir="here").attempts == tmp_path / "here"


def test_tasks_are_given_the_public_url_or_the_listen_address() -> None:
    """X-13: whichever is set."""
    assert settings.load().public_url == "http://127.0.0.1:8080"
    assert settings.load(url="https://triggers.example.org/").public_url == "https://triggers.example.org"
    loaded = settings.load(listen="[::1]:9000")
    assert (loaded.host, loaded.port) == ("::1", 9000)


@pytest.mark.parametrize(
    ("said", "is_traced"),
    [
        ({}, False),
        ({"TRIGGERCTL_TRACING_URL": "http://here:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://here:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://here:4318/v1/traces"}, True),
        ({"TRIGGERCTL_TRACING_URL": "http://here:4318", "OTEL_SDK_DISABLED": "True"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://here:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://here:4318", "OTEL_TRACES_EXPORTER": "otlp"}, True),
    ],
    ids=str,
)
def test_traces_are_sent_if_an_endpoint_is_set(
    monkeypatch: pytest.MonkeyPatch, said: dict[str, str], is_traced: bool
) -> None:
    """O-04: by our setting or by OpenTelemetry's own variables, which can also switch traces off."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    assert settings.load().is_traced is is_traced


@pytest.mark.parametrize(
    ("name", "span", "why"), [("retain_runs", "1h", "less than 1d"), ("retain_costs", "90d", "year")]
)
def test_a_retention_below_its_minimum_is_refused(name: str, span: str, why: str) -> None:
    """O-07: X-01 and budgets need the records; 0 keeps them for ever."""
    with pytest.raises(Invalid, match=why):
        settings.load(**{name: span})
    assert getattr(settings.load(**{name: "0s"}), name) == timedelta(0)

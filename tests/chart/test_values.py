"""Every value is documented, described by the schema and has an effect; every setting can be reached."""

import json
import re
from typing import Any

import pytest

from controller.settings import Settings, load
from tests.chart import types
from tests.chart.modes import MODES, README, release
from tests.chart.objects import at, refusal, render
from tests.chart.values import DEFAULTS, PATHS, SCHEMA, default, described, example
from tests.docs import pages

DERIVED_SETTINGS = {"database_url", "listen_url", "listen", "access", "url", "work_dir", "checkpoint_key_file"}
DERIVED_SETTINGS |= {"secrets_dir", "secrets_namespace"}
"""Settings that the chart derives from its own paths and from other values."""


def readme_rows() -> dict[str, tuple[str, str]]:
    """Return (default, meaning) of each value in the README's table."""
    cells = [re.split(r"(?<!\\)\|", line) for line in README.splitlines() if re.match(r"\| `[a-z]", line)]
    rows = {path.strip(" `"): (given.strip(), meaning.strip()) for _, path, given, meaning, _ in cells}
    assert len(rows) == len(cells)
    return rows


def test_the_readme_lists_exactly_the_values() -> None:
    """O-01, U-05: in the order of values.yaml."""
    assert list(readme_rows()) == PATHS


@pytest.mark.parametrize("path", PATHS)
def test_the_readme_states_default_and_meaning(path: str) -> None:
    """O-01, U-05: the default is that of values.yaml."""
    given, meaning = readme_rows()[path]
    assert json.loads(given.strip("`")) == default(path)
    assert meaning


def test_values_yaml_and_schema_list_the_same_values() -> None:
    """O-01: every value has a default and a description."""

    def leaves(values: Any, path: str = "") -> Any:
        for name, value in values.items():
            value_path = f"{path}{name}"
            yield from [value_path] if value_path in PATHS else leaves(value, f"{value_path}.")

    assert list(leaves(DEFAULTS)) == PATHS


@pytest.mark.parametrize("path", PATHS)
def test_every_value_changes_the_rendered_objects(path: str) -> None:
    """O-01: no documented value is without effect."""
    without, with_it = example(path)
    assert render(without).texts != render(with_it).texts


def schema_levels(schema: dict[str, Any] = SCHEMA, path: str = "") -> Any:
    """Yield the path of every object whose names are fixed by the chart."""
    yield path
    for name, part in schema["properties"].items():
        if "properties" in part:
            yield from schema_levels(part, f"{path}{name}.")


@pytest.mark.parametrize("level", list(schema_levels()))
def test_an_unknown_name_is_refused_at_every_level(level: str) -> None:
    """O-01: the message names the place."""
    message = refusal(at(f"{level}replicaCuont", 3))
    assert f"at '{('/' + level[:-1]).replace('.', '/') if level else ''}'" in message
    assert "additional properties 'replicaCuont' not allowed" in message


@pytest.mark.parametrize("path", [*filter(None, schema_levels()), *PATHS])
def test_an_empty_name_is_refused(path: str) -> None:
    """O-01: `ingress:` with its lines commented out would remove defaults; the schema names what is missing."""
    level, _, name = path.rstrip(".").rpartition(".")
    message = refusal(at(path.rstrip("."), None))
    assert f"at '{('/' + level).replace('.', '/') if level else ''}': missing property '{name}'" in message


@pytest.mark.parametrize("path", PATHS)
def test_a_wrong_type_is_refused(path: str) -> None:
    """O-01: no value may be a list of lists."""
    assert f"at '/{path.replace('.', '/')}" in refusal(at(path, [[]]))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("replicaCount", "3", "got string, want integer"),
        ("replicaCount", -1, "minimum"),
        ("controller.executionQps", "ten", "got string, want number"),
        ("controller.resyncInterval", "30", "does not match pattern"),
        ("controller.stopGrace", "PT10S", "does not match pattern"),
        ("controller.logLevel", "trace", "value must be one of"),
        ("database.type", "mysql", "value must be one of 'sqlite', 'postgresql'"),
        ("image.digest", "latest", "does not match pattern"),
        ("service.port", 70000, "maximum"),
        ("url", "triggers.example.com", "does not match pattern"),
        ("url", "https://example.com/triggers", "does not match pattern"),
        ("resources.limits.memory", True, "/resources/limits/memory"),
        ("resources.limit", {}, "additional properties 'limit' not allowed"),
        ("tolerations", [{"keys": "spot"}], "additional properties 'keys' not allowed"),
        ("affinity.nodeAffinity.required", {}, "additional properties 'required' not allowed"),
        ("extraEnv", [{"nmae": "A"}], "additional properties 'nmae' not allowed"),
        ("extraVolumes", [{"name": "a", "secret": {"name": "b"}}], "additional properties 'name' not allowed"),
        ("securityContext.runAsRoot", True, "additional properties 'runAsRoot' not allowed"),
        ("networkPolicy.egress", [{"from": []}], "additional properties 'from' not allowed"),
        ("launchers.extraRules", [{"resource": ["pods"]}], "additional properties 'resource' not allowed"),
        ("controller.leaseSeconds", 10, "minimum: got 10, want 41"),
        ("image.repository", "registry.example.com/triggerctl:1.0", "does not match pattern"),
        ("database.postgresql.existingSecret", "The Secret", "does not match pattern"),
        ("ingress.host", "https://triggers.example.com", "does not match pattern"),
        ("access.oidc.grants", {"platform": "operator:Acme"}, "does not match pattern"),
        ("access.oidc.grants", {"platform": "operator:acme,"}, "does not match pattern"),
        ("settings.execution_qsp", 5, "additional properties 'execution_qsp' not allowed"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_wrong_values_are_refused_by_the_schema(path: str, value: Any, message: str) -> None:
    """O-01: also within Kubernetes' own types."""
    assert message in refusal(at(path, value))


def test_the_schema_contains_kubernetes_own_types() -> None:
    """O-01: as `python -m tests.chart.types` writes them."""
    assert types.with_types(SCHEMA) == SCHEMA


def setting_name(path: str) -> str:
    """Return the setting of a value: max_running for `controller.maxRunning`, oidc_claim for `access.oidc.claim`."""
    name = path.partition(".")[2].replace(".", "_")
    return re.sub(r"([A-Z])", r"_\1", name).lower()


NAMED = {setting_name(path): path for path in PATHS if path.startswith(("controller.", "access."))}
OTHERS = set(SCHEMA["properties"]["settings"]["properties"])


def test_values_reach_exactly_the_settings() -> None:
    """O-01, L-02: a new setting goes into `settings` of values.schema.json, or gets a value below `controller`."""
    assert NAMED.keys() | OTHERS | DERIVED_SETTINGS == set(Settings.model_fields)
    assert not NAMED.keys() & OTHERS


@pytest.mark.parametrize("name", sorted(NAMED))
def test_values_have_the_defaults_of_their_settings(name: str) -> None:
    """O-01: except the log format, which is JSON in Kubernetes."""
    declared = Settings.model_fields[name].default
    assert default(NAMED[name]) == {"log_format": "json"}.get(name, "" if declared is None else declared)


@pytest.mark.parametrize("mode", MODES)
def test_the_controller_accepts_the_rendered_settings(mode: str) -> None:
    """O-01, O-06: every value passes the controller's own checks, and a token is always required."""
    given = release(mode).settings()
    settings = load(**given)
    assert (settings.access, settings.max_running) == ("required", given["max_running"])


def test_settings_override_values() -> None:
    """O-01: no setting is in the file twice."""
    assert render({"settings": {"checkpoint_public_key": "cHVibGlj"}}).settings()["checkpoint_public_key"] == "cHVibGlj"


def test_scopes_of_secrets_reach_the_controller() -> None:
    """X-12: with the projects that may use them."""
    given = render({"settings": {"secret_scopes": {"client-7": ["acme"]}}}).settings()
    assert load(**given).secret_scopes == {"client-7": ["acme"]}


def test_the_first_table_names_existing_values() -> None:
    """O-01: rate limit, database Secret and replica count are found in under a minute."""
    table = pages.section(README, "## Where is …")
    named = [name for name in re.findall(r"`([\w.]+)`", table) if name != "url"]
    for wanted in ("controller.executionQps", "database.postgresql.existingSecret", "replicaCount"):
        assert wanted in named
    parents = {path.rpartition(".")[0] for path in PATHS}
    assert [name for name in named if name not in PATHS and name not in parents] == []


def test_every_value_has_a_type_in_the_schema() -> None:
    """O-01: no value accepts everything."""
    for path, part in described():
        assert part.keys() & {"type", "enum", "$ref", "anyOf"}, path

"""Every value: documented, described by the schema, of use; and every setting of the controller can be reached."""

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

BY_THE_CHART = {"database_url", "listen_url", "listen", "access", "url", "work_dir", "checkpoint_key_file"}
BY_THE_CHART |= {"secrets_dir", "secrets_namespace"}
"""Settings that follow from where the chart puts things, and from values with a meaning of their own."""


def rows() -> dict[str, tuple[str, str]]:
    """(default, meaning) of each value in the README's table."""
    cells = [re.split(r"(?<!\\)\|", line) for line in README.splitlines() if re.match(r"\| `[a-z]", line)]
    found = {path.strip(" `"): (given.strip(), meaning.strip()) for _, path, given, meaning, _ in cells}
    assert len(found) == len(cells)
    return found


def test_the_readme_has_a_row_for_every_value_and_for_no_other() -> None:
    """O-01, U-05: in the order of values.yaml."""
    assert list(rows()) == PATHS


@pytest.mark.parametrize("path", PATHS)
def test_the_readme_says_the_default_and_what_a_value_means(path: str) -> None:
    """O-01, U-05: as values.yaml has it."""
    given, meaning = rows()[path]
    assert json.loads(given.strip("`")) == default(path)
    assert meaning


def test_values_yaml_has_every_value_and_no_other() -> None:
    """O-01: what the schema describes has a default, and everything that has one is described."""

    def leaves(values: Any, path: str = "") -> Any:
        for name, value in values.items():
            here = f"{path}{name}"
            yield from [here] if here in PATHS else leaves(value, f"{here}.")

    assert list(leaves(DEFAULTS)) == PATHS


@pytest.mark.parametrize("path", PATHS)
def test_every_value_makes_a_difference(path: str) -> None:
    """O-01: none is documented that does nothing."""
    without, with_it = example(path)
    assert render(without).texts != render(with_it).texts


def levels(schema: dict[str, Any] = SCHEMA, path: str = "") -> Any:
    """The path of every object whose names the chart itself gives."""
    yield path
    for name, part in schema["properties"].items():
        if "properties" in part:
            yield from levels(part, f"{path}{name}.")


@pytest.mark.parametrize("level", list(levels()))
def test_an_unknown_name_is_refused_at_every_level(level: str) -> None:
    """O-01: in the schema's words, naming where it stands."""
    said = refusal(at(f"{level}replicaCuont", 3))
    assert f"at '{('/' + level[:-1]).replace('.', '/') if level else ''}'" in said
    assert "additional properties 'replicaCuont' not allowed" in said


@pytest.mark.parametrize("path", [*filter(None, levels()), *PATHS])
def test_a_name_with_nothing_behind_it_is_refused(path: str) -> None:
    """O-01: `ingress:` alone, its lines commented out, would take defaults away; the schema says what is missing."""
    level, _, name = path.rstrip(".").rpartition(".")
    said = refusal(at(path.rstrip("."), None))
    assert f"at '{('/' + level).replace('.', '/') if level else ''}': missing property '{name}'" in said


@pytest.mark.parametrize("path", PATHS)
def test_a_wrong_type_is_refused(path: str) -> None:
    """O-01: a list of lists is nothing that any value may be."""
    assert f"at '/{path.replace('.', '/')}" in refusal(at(path, [[]]))


@pytest.mark.parametrize(
    ("path", "value", "said"),
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
def test_wrong_values_are_refused_in_the_schemas_words(path: str, value: Any, said: str) -> None:
    """O-01: within what Kubernetes describes too."""
    assert said in refusal(at(path, value))


def test_kubernetes_types_in_the_schema_are_kubernetes_own() -> None:
    """O-01: `python -m tests.chart.types` writes them."""
    assert types.with_types(SCHEMA) == SCHEMA


def setting(path: str) -> str:
    """The setting that a value is: `controller.maxRunning` is max_running, `access.oidc.claim` oidc_claim."""
    name = path.partition(".")[2].replace(".", "_")
    return re.sub(r"([A-Z])", r"_\1", name).lower()


NAMED = {setting(path): path for path in PATHS if path.startswith(("controller.", "access."))}
OTHERS = set(SCHEMA["properties"]["settings"]["properties"])


def test_every_setting_can_be_reached_and_no_value_names_one_that_is_not_there() -> None:
    """O-01, L-02: a new setting goes into `settings` of values.schema.json, or gets a value below `controller`."""
    assert NAMED.keys() | OTHERS | BY_THE_CHART == set(Settings.model_fields)
    assert not NAMED.keys() & OTHERS


@pytest.mark.parametrize("name", sorted(NAMED))
def test_a_value_says_the_default_of_its_setting_unless_kubernetes_wants_another(name: str) -> None:
    """O-01: the chart changes nothing unsaid, but that logs are for machines."""
    declared = Settings.model_fields[name].default
    assert default(NAMED[name]) == {"log_format": "json"}.get(name, "" if declared is None else declared)


@pytest.mark.parametrize("mode", MODES)
def test_the_controller_takes_the_file_it_gets(mode: str) -> None:
    """O-01, O-06: every value in it passes the controller's own checks, and nobody gets in without a token."""
    given = release(mode).settings()
    found = load(**given)
    assert (found.access, found.max_running) == ("required", given["max_running"])


def test_settings_go_before_values() -> None:
    """O-01: nothing stands in the file twice."""
    assert render({"settings": {"checkpoint_public_key": "cHVibGlj"}}).settings()["checkpoint_public_key"] == "cHVibGlj"


def test_scopes_of_secrets_reach_the_controller() -> None:
    """X-12: which projects may use them."""
    given = render({"settings": {"secret_scopes": {"client-7": ["acme"]}}}).settings()
    assert load(**given).secret_scopes == {"client-7": ["acme"]}


def test_the_first_table_names_values_that_are_there() -> None:
    """O-01: rate limit, database secret and replica count are found in under a minute."""
    table = pages.section(README, "## Where is …")
    named = [name for name in re.findall(r"`([\w.]+)`", table) if name != "url"]
    for wanted in ("controller.executionQps", "database.postgresql.existingSecret", "replicaCount"):
        assert wanted in named
    parents = {path.rpartition(".")[0] for path in PATHS}
    assert [name for name in named if name not in PATHS and name not in parents] == []


def test_every_schema_of_a_value_says_a_type() -> None:
    """O-01: none takes anything whatever."""
    for path, part in described():
        assert part.keys() & {"type", "enum", "$ref", "anyOf"}, path

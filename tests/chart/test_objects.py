"""What every mode of the chart installs, held against Kubernetes' own schemas and against what a pod may be."""

import json
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from shutil import which
from typing import Any

import helm_python as helm
import jsonschema
import kubernetes_validate
import pytest

from dashboards.alerts import HERE
from revisions.spec import documents
from tests.chart.modes import MODES, release
from tests.chart.objects import CHART, NAMESPACE, Rendered

OLDEST, NEWEST = "1.27", kubernetes_validate.latest_version()
CRDS = json.loads((Path(__file__).parent / "crds.json").read_text())


@pytest.fixture(autouse=True, scope="module")
def read_once() -> Iterator[None]:
    """Kubernetes' schemas are megabytes, which would be read for every single object."""
    read = kubernetes_validate.utils.schema_contents
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kubernetes_validate.utils, "schema_contents", cache(read))
        yield


@pytest.fixture(params=MODES)
def installed(request: pytest.FixtureRequest) -> Rendered:
    return release(request.param)


@pytest.mark.parametrize("mode", MODES)
def test_lint_finds_nothing(mode: str) -> None:
    """O-01: in no mode; that it would like an icon is no warning."""
    report = helm.lint(CHART, MODES[mode], strict=True, kube_version=f"v{OLDEST}.0")
    assert report["errors"] == []
    assert [found["error"] for found in report["messages"] if "icon is recommended" not in found["error"]] == []


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_every_object_is_what_kubernetes_takes(installed: Rendered, version: str) -> None:
    """O-01: strictly, by the oldest Kubernetes that the chart admits and the newest there is a schema of."""
    for found in installed.objects:
        if found["kind"] in CRDS:
            jsonschema.validate(found, CRDS[found["kind"]])
        else:
            kubernetes_validate.validate(found, version, strict=True)


def test_the_chart_admits_the_versions_it_is_held_against() -> None:
    """O-01: Chart.yaml names the oldest."""
    with helm.Chart.load(CHART) as chart:
        assert chart.metadata["kubeVersion"] == f">={OLDEST}.0-0"


def test_no_two_objects_have_one_name(installed: Rendered) -> None:
    """O-01: an install would fail on the second."""
    names = [
        (found["kind"], found["metadata"].get("namespace"), found["metadata"]["name"]) for found in installed.objects
    ]
    assert len(set(names)) == len(names)


def test_everything_stands_in_the_releases_namespace(installed: Rendered) -> None:
    """O-01: but what is of no namespace, and the rights where Jobs start."""
    for found in installed.objects:
        if found["kind"] in ("ClusterRole", "ClusterRoleBinding"):
            assert "namespace" not in found["metadata"]
        elif found["kind"] not in ("Role", "RoleBinding"):
            assert found["metadata"]["namespace"] == NAMESPACE


def test_no_pod_can_become_root_or_write_where_it_should_not(installed: Rendered) -> None:
    """O-01: non-root, a root file system that is only read, no capabilities, the runtime's seccomp profile."""
    for _, _, spec in installed.pods():
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["enableServiceLinks"] is False
    for _, container in installed.containers():
        context = container["securityContext"]
        assert (context["readOnlyRootFilesystem"], context["allowPrivilegeEscalation"]) == (True, False)
        assert context["capabilities"] == {"drop": ["ALL"]}


def test_every_pod_runs_one_image_and_says_what_it_needs(installed: Rendered) -> None:
    """O-01: migrations and test run the controller's image, so that what was tested is what runs."""
    assert len({container["image"] for _, container in installed.containers()}) == 1
    for _, container in installed.containers():
        assert container["resources"]["requests"]["memory"]
        assert container["resources"]["limits"]["memory"]


def test_every_mount_has_its_volume(installed: Rendered) -> None:
    """O-01: and no volume is mounted nowhere."""
    for _, _, spec in installed.pods():
        mounted = {mount["name"] for container in spec["containers"] for mount in container.get("volumeMounts", [])}
        assert mounted == {volume["name"] for volume in spec.get("volumes", [])}


def selecting(installed: Rendered) -> Iterator[tuple[str, dict[str, str]]]:
    """(what, labels) of everything that selects pods."""
    for found in installed.objects:
        spec, name = found.get("spec", {}), f"{found['kind']} {found['metadata']['name']}"
        match found["kind"]:
            case "Service":
                yield name, spec["selector"]
            case "Deployment":
                yield name, spec["selector"]["matchLabels"]
                for spread in spec["template"]["spec"]["topologySpreadConstraints"]:
                    yield name, spread["labelSelector"]["matchLabels"]
            case "PodDisruptionBudget":
                yield name, spec["selector"]["matchLabels"]
            case "NetworkPolicy":
                yield name, spec["podSelector"]["matchLabels"]


def test_every_selector_finds_the_pods_of_one_kind(installed: Rendered) -> None:
    """O-01: a Service that also took in the migrations' pod would send it requests."""
    pods = [(name, labels) for name, labels, _ in installed.pods()]
    for what, wanted in selecting(installed):
        assert len([name for name, labels in pods if wanted.items() <= labels.items()]) == 1, what


def test_services_lead_to_a_port_that_is_there(installed: Rendered) -> None:
    """O-01: by its name."""
    for service in installed.of("Service"):
        [pod] = [spec for _, labels, spec in installed.pods() if service["spec"]["selector"].items() <= labels.items()]
        ports = {port["name"] for container in pod["containers"] for port in container.get("ports", [])}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports


def test_probes_ask_what_tells_the_truth(installed: Rendered) -> None:
    """O-05: alive is /healthz, ready is /readyz."""
    for found in installed.of("Deployment"):
        [container] = found["spec"]["template"]["spec"]["containers"]
        asked = {name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")}
        assert asked == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}


def test_rights_go_only_to_who_launches(installed: Rendered) -> None:
    """O-01: a pod has a token of Kubernetes' only if it has rights to use it for."""
    rights = bool(installed.of("Role") + installed.of("ClusterRole"))
    for name, _, spec in installed.pods():
        launches = "--without=loop,runner" not in spec["containers"][0].get("args", []) and "serviceAccountName" in spec
        assert spec["automountServiceAccountToken"] is (rights and launches), name


def test_bindings_give_roles_that_are_there_to_an_account_that_is_there(installed: Rendered) -> None:
    """O-01: in one namespace."""
    for binding in installed.of("RoleBinding") + installed.of("ClusterRoleBinding"):
        role = binding["roleRef"]
        found = [each["metadata"] for each in installed.of(role["kind"]) if each["metadata"]["name"] == role["name"]]
        assert binding["metadata"].get("namespace") in [each.get("namespace") for each in found]
        [subject] = binding["subjects"]
        accounts = {spec["serviceAccountName"] for _, _, spec in installed.pods() if "serviceAccountName" in spec}
        assert {subject["name"]} == accounts
        assert subject["namespace"] == NAMESPACE


def test_the_notes_name_what_is_there(installed: Rendered) -> None:
    """O-01: the next commands can be typed as they stand."""
    deployments = {found["metadata"]["name"] for found in installed.of("Deployment")}
    services = {found["metadata"]["name"] for found in installed.of("Service")}
    words = installed.notes.split()
    assert {word.removeprefix("deployment/") for word in words if word.startswith("deployment/")} <= deployments
    assert {word.removeprefix("service/") for word in words if word.startswith("service/")} <= services
    assert f"-n {NAMESPACE}" in installed.notes


def test_dashboards_and_rules_arrive_as_they_were_written() -> None:
    """O-03: byte for byte and group for group, whatever braces they contain; rules with the release for any."""
    installed = release("split")
    shipped = {path.name: path.read_text() for path in (CHART / "dashboards").glob("*.json")}
    found = [each for each in installed.of("ConfigMap") if each["metadata"]["labels"].get("grafana_dashboard") == "1"]
    assert {name: text for each in found for name, text in each["data"].items()} == shipped
    assert shipped
    groups = [group for path in sorted((CHART / "rules").glob("*.yaml")) for group in groups_of(path)]
    assert installed.one("PrometheusRule")["spec"]["groups"] == groups
    assert groups


def groups_of(path: Path) -> list[Any]:
    own = f'namespace="{NAMESPACE}",job="{NAMESPACE}/acme-triggerctl"'
    [found] = documents.load(path.read_text().replace(HERE, own), str(path))
    return list(found["groups"])


@pytest.mark.skipif(not which("promtool"), reason="promtool is not installed (Debian: prometheus)")
def test_the_rules_are_what_prometheus_takes() -> None:
    """O-03: by its own tool."""
    paths = sorted(map(str, (CHART / "rules").glob("*.yaml")))
    checked = subprocess.run(["promtool", "check", "rules", *paths], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr

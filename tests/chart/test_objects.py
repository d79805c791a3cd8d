"""Objects of every mode, checked against Kubernetes' own schemas and against the restrictions on pods."""

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
def cache_schemas() -> Iterator[None]:
    """Cache Kubernetes' schemas, which are megabytes large and would be read again for every object."""
    read = kubernetes_validate.utils.schema_contents
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kubernetes_validate.utils, "schema_contents", cache(read))
        yield


@pytest.fixture(params=MODES)
def installed(request: pytest.FixtureRequest) -> Rendered:
    return release(request.param)


@pytest.mark.parametrize("mode", MODES)
def test_helm_lint_reports_nothing(mode: str) -> None:
    """O-01: except that the chart has no icon."""
    report = helm.lint(CHART, MODES[mode], strict=True, kube_version=f"v{OLDEST}.0")
    assert report["errors"] == []
    assert [each["error"] for each in report["messages"] if "icon is recommended" not in each["error"]] == []


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_every_object_is_valid_for_kubernetes(installed: Rendered, version: str) -> None:
    """O-01: strictly, for the oldest Kubernetes that the chart admits and the newest with a published schema."""
    for item in installed.objects:
        if item["kind"] in CRDS:
            jsonschema.validate(item, CRDS[item["kind"]])
        else:
            kubernetes_validate.validate(item, version, strict=True)


def test_the_chart_admits_the_oldest_validated_version() -> None:
    """O-01: Chart.yaml names it."""
    with helm.Chart.load(CHART) as chart:
        assert chart.metadata["kubeVersion"] == f">={OLDEST}.0-0"


def test_object_names_are_unique(installed: Rendered) -> None:
    """O-01: an installation fails on the second object of a name."""
    names = [(item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]) for item in installed.objects]
    assert len(set(names)) == len(names)


def test_objects_are_in_the_namespace_of_the_release(installed: Rendered) -> None:
    """O-01: except cluster-wide objects and the rights where Jobs start."""
    for item in installed.objects:
        if item["kind"] in ("ClusterRole", "ClusterRoleBinding"):
            assert "namespace" not in item["metadata"]
        elif item["kind"] not in ("Role", "RoleBinding"):
            assert item["metadata"]["namespace"] == NAMESPACE


def test_pods_run_without_privileges(installed: Rendered) -> None:
    """O-01: not as root, with a read-only root file system, no capabilities and the default seccomp profile."""
    for _, _, spec in installed.pods():
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["enableServiceLinks"] is False
    for _, container in installed.containers():
        context = container["securityContext"]
        assert (context["readOnlyRootFilesystem"], context["allowPrivilegeEscalation"]) == (True, False)
        assert context["capabilities"] == {"drop": ["ALL"]}


def test_all_pods_run_one_image_and_request_memory(installed: Rendered) -> None:
    """O-01: migrations and the test pod run the controller's image, so that the tested image is the one that runs."""
    assert len({container["image"] for _, container in installed.containers()}) == 1
    for _, container in installed.containers():
        assert container["resources"]["requests"]["memory"]
        assert container["resources"]["limits"]["memory"]


def test_every_mount_has_a_volume_and_every_volume_is_mounted(installed: Rendered) -> None:
    """O-01: in every pod."""
    for _, _, spec in installed.pods():
        mounted = {mount["name"] for container in spec["containers"] for mount in container.get("volumeMounts", [])}
        assert mounted == {volume["name"] for volume in spec.get("volumes", [])}


def selectors(installed: Rendered) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (object, labels) of everything that selects pods."""
    for item in installed.objects:
        spec, name = item.get("spec", {}), f"{item['kind']} {item['metadata']['name']}"
        match item["kind"]:
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


def test_every_selector_matches_one_kind_of_pod(installed: Rendered) -> None:
    """O-01: a Service must not send requests to the pod of the migrations."""
    pods = [(name, labels) for name, labels, _ in installed.pods()]
    for what, wanted in selectors(installed):
        assert len([name for name, labels in pods if wanted.items() <= labels.items()]) == 1, what


def test_services_target_an_existing_port(installed: Rendered) -> None:
    """O-01: by its name."""
    for service in installed.of_kind("Service"):
        [pod] = [spec for _, labels, spec in installed.pods() if service["spec"]["selector"].items() <= labels.items()]
        ports = {port["name"] for container in pod["containers"] for port in container.get("ports", [])}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports


def test_probes_use_the_health_endpoints(installed: Rendered) -> None:
    """O-05: /healthz for liveness, /readyz for readiness."""
    for item in installed.of_kind("Deployment"):
        [container] = item["spec"]["template"]["spec"]["containers"]
        paths = {name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")}
        assert paths == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}


def test_only_launching_pods_get_a_kubernetes_token(installed: Rendered) -> None:
    """O-01: and only if there are rights that it could use."""
    rights = bool(installed.of_kind("Role") + installed.of_kind("ClusterRole"))
    for name, _, spec in installed.pods():
        launches = "--without=loop,runner" not in spec["containers"][0].get("args", []) and "serviceAccountName" in spec
        assert spec["automountServiceAccountToken"] is (rights and launches), name


def test_bindings_reference_existing_roles_and_accounts(installed: Rendered) -> None:
    """O-01: in the same namespace."""
    for binding in installed.of_kind("RoleBinding") + installed.of_kind("ClusterRoleBinding"):
        role = binding["roleRef"]
        roles = [
            each["metadata"] for each in installed.of_kind(role["kind"]) if each["metadata"]["name"] == role["name"]
        ]
        assert binding["metadata"].get("namespace") in [each.get("namespace") for each in roles]
        [subject] = binding["subjects"]
        accounts = {spec["serviceAccountName"] for _, _, spec in installed.pods() if "serviceAccountName" in spec}
        assert {subject["name"]} == accounts
        assert subject["namespace"] == NAMESPACE


def test_the_notes_name_existing_objects(installed: Rendered) -> None:
    """O-01: the commands can be typed as shown."""
    deployments = {item["metadata"]["name"] for item in installed.of_kind("Deployment")}
    services = {item["metadata"]["name"] for item in installed.of_kind("Service")}
    words = installed.notes.split()
    assert {word.removeprefix("deployment/") for word in words if word.startswith("deployment/")} <= deployments
    assert {word.removeprefix("service/") for word in words if word.startswith("service/")} <= services
    assert f"-n {NAMESPACE}" in installed.notes


def test_dashboards_and_rules_are_installed_unchanged() -> None:
    """O-03: whatever braces they contain; rules select the release that they are installed with."""
    installed = release("split")
    shipped = {path.name: path.read_text() for path in (CHART / "dashboards").glob("*.json")}
    config_maps = [
        each for each in installed.of_kind("ConfigMap") if each["metadata"]["labels"].get("grafana_dashboard") == "1"
    ]
    assert {name: text for each in config_maps for name, text in each["data"].items()} == shipped
    assert shipped
    groups = [group for path in sorted((CHART / "rules").glob("*.yaml")) for group in rule_groups(path)]
    assert installed.single("PrometheusRule")["spec"]["groups"] == groups
    assert groups


def rule_groups(path: Path) -> list[Any]:
    own = f'namespace="{NAMESPACE}",job="{NAMESPACE}/acme-triggerctl"'
    [rules] = documents.load(path.read_text().replace(HERE, own), str(path))
    return list(rules["groups"])


@pytest.mark.skipif(not which("promtool"), reason="promtool is not installed (Debian: prometheus)")
def test_promtool_accepts_the_rules() -> None:
    """O-03: Prometheus' own tool checks their syntax."""
    paths = sorted(map(str, (CHART / "rules").glob("*.yaml")))
    checked = subprocess.run(["promtool", "check", "rules", *paths], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr

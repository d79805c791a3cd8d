"""The purpose of each installation mode of the chart."""

import re
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from controller.settings import PARTS
from reconcile.plugins import SecretPlaces
from reconcile.runs.secrets.files import source
from revisions.spec import documents
from tests.chart.modes import EVERYTHING, MODES, ON_POSTGRESQL, release
from tests.chart.objects import NAMESPACE, at, merged, refusal, render
from tests.chart.values import default
from tests.docs import pages

DEFAULT_ACCOUNT = {"serviceAccount": {"create": False}}
"""Values that use the service account that every pod of the namespace has."""
EGRESS_RESTRICTED = {"networkPolicy": {"enabled": True, "restrictEgress": True}}


def controller(mode: str, name: str = "acme-triggerctl") -> dict[str, Any]:
    """Return the spec of a Deployment."""
    [deployment] = [each for each in release(mode).of_kind("Deployment") if each["metadata"]["name"] == name]
    return dict(deployment["spec"])


def container(mode: str, name: str = "acme-triggerctl") -> dict[str, Any]:
    [single] = controller(mode, name)["template"]["spec"]["containers"]
    return dict(single)


def variables(container_spec: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container_spec["env"]}


def test_sqlite_is_one_controller_with_its_file_on_a_volume() -> None:
    """O-01: the old pod ends before the new one opens the file, and no migration Job runs beside it."""
    spec = controller("sqlite")
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    assert variables(container("sqlite"))["TRIGGERCTL_DATABASE_URL"] == "sqlite:////data/triggerctl.db"
    claim = release("sqlite").single("PersistentVolumeClaim")
    assert claim["spec"]["resources"]["requests"]["storage"] == "20Gi"
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert {"name": "data", "mountPath": "/data"} in container("sqlite")["volumeMounts"]
    assert release("sqlite").settings()["work_dir"].startswith("/data/")
    assert release("sqlite").of_kind("Job") == []


def test_a_pod_on_sqlite_may_migrate_as_long_as_a_job() -> None:
    """O-01: a pod killed during a migration would start it again forever."""
    probe = container("sqlite")["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] == default("migrations.timeoutSeconds")


def test_an_existing_claim_and_account_are_used() -> None:
    """O-01: objects that are named are not created."""
    installed = release("sqlite on a claim")
    assert installed.of_kind("PersistentVolumeClaim") + installed.of_kind("ServiceAccount") == []
    [data] = [each for each in controller("sqlite on a claim")["template"]["spec"]["volumes"] if each["name"] == "data"]
    assert data["persistentVolumeClaim"]["claimName"] == "old"
    assert controller("sqlite on a claim")["template"]["spec"]["serviceAccountName"] == "default"


def test_postgresql_is_several_controllers_that_are_replaced_one_by_one() -> None:
    """O-01: the URL comes only from an existing Secret."""
    spec = controller("postgresql")
    assert spec["replicas"] == 3
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    reference = {"secretKeyRef": {"name": "triggerctl-database", "key": "url"}}
    assert variables(container("postgresql"))["TRIGGERCTL_DATABASE_URL"] == reference
    assert release("postgresql").of_kind("Secret") + release("postgresql").of_kind("PersistentVolumeClaim") == []


def test_migrations_run_before_anything_is_replaced() -> None:
    """O-01: a Job runs before install and upgrade, and needs nothing that the installation creates."""
    installed = release("postgresql")
    job = installed.single("Job")
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    pod = job["spec"]["template"]["spec"]
    [migrations] = pod["containers"]
    assert migrations["args"] == ["db", "upgrade"]
    assert "serviceAccountName" not in pod
    assert [volume for volume in pod["volumes"] if "configMap" in volume] == []
    assert (
        variables(migrations)["TRIGGERCTL_DATABASE_URL"]
        == variables(container("postgresql"))["TRIGGERCTL_DATABASE_URL"]
    )
    assert release("postgresql migrated by hand").of_kind("Job") == []


def test_a_restored_database_gets_its_baseline_before_any_controller_starts() -> None:
    """O-07: a separate Job declares it after the migrations, and is not retried after a refusal."""
    migrations, baseline = release("split restored").of_kind("Job")
    assert (migrations["metadata"]["name"], baseline["metadata"]["name"]) == (
        "acme-triggerctl-migrations",
        "acme-triggerctl-baseline",
    )
    weights = [int(job["metadata"]["annotations"]["helm.sh/hook-weight"]) for job in (migrations, baseline)]
    assert weights == sorted(weights)
    assert weights[0] < weights[1]
    [container] = baseline["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["up", "--baseline=now", f"--without={','.join(PARTS)}"]
    assert baseline["spec"]["backoffLimit"] == 0
    named = [each["metadata"]["name"] for each in release("split restored").of_kind("NetworkPolicy")]
    assert "acme-triggerctl-baseline" in named
    assert "Leave `baseline`\nout from now on" in release("split restored").notes
    assert "baseline" not in release("split").notes
    [on_sqlite] = release("sqlite restored").of_kind("Job")
    pod = on_sqlite["spec"]["template"]["spec"]
    assert {"name": "data", "persistentVolumeClaim": {"claimName": "restored"}} in pod["volumes"]
    assert variables(pod["containers"][0])["TRIGGERCTL_DATABASE_URL"] == "sqlite:////data/triggerctl.db"


def test_the_network_policy_of_the_migrations_exists_before_them() -> None:
    """O-01: they reach the database even in a namespace that denies all traffic by default."""
    installed = release("split")
    [policy] = [each for each in installed.of_kind("NetworkPolicy") if each["metadata"]["name"].endswith("migrations")]
    weights = [each["metadata"]["annotations"]["helm.sh/hook-weight"] for each in (policy, installed.single("Job"))]
    assert int(weights[0]) < int(weights[1])
    assert {"port": 5432} in policy["spec"]["egress"][2]["ports"]


def test_notifications_and_migrations_bypass_pgbouncer() -> None:
    """O-09: they use the server's own URL."""
    direct = {"secretKeyRef": {"name": "triggerctl-database", "key": "listen-url"}}
    assert variables(container("split", "acme-triggerctl-worker"))["TRIGGERCTL_LISTEN_URL"] == direct
    [migrations] = release("split").single("Job")["spec"]["template"]["spec"]["containers"]
    assert variables(migrations)["TRIGGERCTL_DATABASE_URL"] == direct


def test_split_mode_exposes_only_the_api() -> None:
    """O-01: no task runs beside the API; both Deployments are scraped."""
    installed = release("split")
    assert container("split", "acme-triggerctl-api")["args"] == ["up", "--without=loop,runner"]
    assert container("split", "acme-triggerctl-worker")["args"] == ["up", "--without=web"]
    components = {
        each["metadata"]["name"]: each["spec"]["selector"]["app.kubernetes.io/component"]
        for each in installed.of_kind("Service")
    }
    assert components == {"acme-triggerctl": "api", "acme-triggerctl-worker": "worker"}
    [path] = installed.single("Ingress")["spec"]["rules"][0]["http"]["paths"]
    assert path["backend"]["service"]["name"] == "acme-triggerctl"
    scraped = installed.single("ServiceMonitor")["spec"]["selector"]["matchLabels"]
    assert all(scraped.items() <= each["metadata"]["labels"].items() for each in installed.of_kind("Service"))


def test_split_mode_keeps_the_signing_key_away_from_tasks() -> None:
    """O-01, R-10: a task that can read the key could sign a forged history."""
    mounts = {name: container("everything", f"acme-triggerctl-{name}")["volumeMounts"] for name in ("api", "worker")}
    key_file = Path(release("everything").settings()["checkpoint_key_file"])
    kept = {name: str(key_file.parent) in [each["mountPath"] for each in listed] for name, listed in mounts.items()}
    assert kept == {"api": True, "worker": False}
    alone = render({"checkpoints": {"existingSecret": "signing"}}).single("Deployment")["spec"]["template"]["spec"]
    assert {"name": "checkpoints", "secret": {"secretName": "signing", "defaultMode": 0o440}} in alone["volumes"]


def test_an_empty_list_of_network_peers_is_refused() -> None:
    """O-01: Kubernetes would read it as "everybody"."""
    assert "at '/networkPolicy/from': minItems: got 0, want 1" in refusal({"networkPolicy": {"from": []}})


def test_unready_pods_do_not_block_a_node_drain() -> None:
    """O-01: no pod is ready without its database, and a drain would wait for the database."""
    for budget in release("split").of_kind("PodDisruptionBudget"):
        assert budget["spec"]["maxUnavailable"] == 1
        assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_jobs_start_only_in_the_configured_namespaces() -> None:
    """O-01, X-10: with exactly the rights that docs/tasks.md names."""
    role = release("split").single("Role")
    assert role["metadata"]["namespace"] == "triggerctl-jobs"
    [described] = re.findall(
        r"^kind: Role\n.*?^(rules:\n.*?)^```$", pages.text("docs/tasks.md"), re.MULTILINE | re.DOTALL
    )
    assert role["rules"] == documents.load(described)[0]["rules"]
    assert release("postgresql").of_kind("Role") == []


def test_other_launchers_get_extra_rights() -> None:
    """O-01: in the namespaces of Jobs, or in the whole cluster."""
    [role] = [
        each for each in release("everything").of_kind("Role") if each["metadata"]["namespace"] == "triggerctl-jobs"
    ]
    assert EVERYTHING["launchers"]["extraRules"][0] in role["rules"]
    assert release("everything").single("ClusterRole")["rules"] == EVERYTHING["launchers"]["extraClusterRules"]


def test_task_secrets_are_readable_only_where_configured() -> None:
    """O-01, X-12: as files of one Secret, and through the API for the named scopes."""
    [role] = [each for each in release("everything").of_kind("Role") if each["metadata"]["namespace"] == NAMESPACE]
    [rule] = role["rules"]
    assert (rule["resources"], rule["verbs"]) == (["secrets"], ["get"])
    assert rule["resourceNames"] == ["triggerctl", "triggerctl-client-7"]
    settings = release("everything").settings()
    assert settings["secrets_from"].endswith("kubernetes")
    mounts = container("everything", "acme-triggerctl-worker")["volumeMounts"]
    assert {"name": "secrets", "mountPath": settings["secrets_dir"], "readOnly": True} in mounts


def test_secret_files_are_mounted_where_the_controller_reads_them() -> None:
    """O-01, X-12: the files of a scope are in a folder of its name, which a Secret's key alone cannot express."""
    settings = release("everything").settings()
    volumes = controller("everything", "acme-triggerctl-worker")["template"]["spec"]["volumes"]
    [volume] = [each["projected"] for each in volumes if each["name"] == "secrets"]
    whole, scoped = (each["secret"] for each in volume["sources"])
    assert whole == {"name": "secrets"}
    [item] = scoped["items"]
    assert (scoped["name"], item["key"]) == ("of-client-7", "GA_TOKEN")
    places = SecretPlaces(folder=Path(settings["secrets_dir"]))
    assert source.place(places, "client-7", "GA_TOKEN") == f"{settings['secrets_dir']}/{item['path']}"


@pytest.mark.parametrize("without", ["existingSecret", "keys"])
def test_a_scope_must_name_its_secret_and_its_keys(without: str) -> None:
    """O-01: without its key a file has no path."""
    scope = {"existingSecret": "client-7", "keys": ["GA_TOKEN"]}
    del scope[without]
    assert f"missing property '{without}'" in refusal({"taskSecrets": {"scopes": {"client-7": scope}}})


@pytest.mark.parametrize(
    ("grace", "seconds"),
    [("10s", 10), ("5m", 300), ("1h", 3600), ("1.5m", 90), ("0.2s", 1), ("1d", 86400)],
    ids=["seconds", "minutes", "hours", "a fraction", "less than a second", "a day"],
)
def test_kubernetes_waits_longer_than_a_graceful_stop_takes(grace: str, seconds: int) -> None:
    """O-05: preStop, the grace for tasks, and twenty seconds to end what remains."""
    deployment = render({"controller": {"stopGrace": grace}, "preStopSeconds": 7}).single("Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert seconds + 7 + 20 < pod["terminationGracePeriodSeconds"] <= seconds + 7 + 30
    assert pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"] == ["sleep", "7"]


@pytest.mark.parametrize(
    ("values", "url"),
    [
        ({}, f"http://acme-triggerctl.{NAMESPACE}.svc"),
        ({"service": {"port": 8080}}, f"http://acme-triggerctl.{NAMESPACE}.svc:8080"),
        ({"ingress": {"enabled": True, "host": "t.org"}}, f"http://acme-triggerctl.{NAMESPACE}.svc"),
        ({"url": "https://t.org"}, "https://t.org"),
    ],
    ids=["service", "port", "ingress", "given"],
)
def test_tasks_call_back_through_the_service(values: dict[str, Any], url: str) -> None:
    """O-01: pods may not reach an Ingress; an address that is given is used instead."""
    assert render(values).settings()["url"] == url


@pytest.mark.parametrize(("values", "url"), [({}, "http://t.org"), ({"tlsSecret": "tls"}, "https://t.org")], ids=str)
def test_the_notes_name_the_ingress(values: dict[str, Any], url: str) -> None:
    """O-01: with https where it has a TLS Secret."""
    assert f" and {url};" in render({"ingress": {"enabled": True, "host": "t.org", **values}}).notes


def test_the_notes_warn_about_untrusted_proxies() -> None:
    """O-06: without a trusted Ingress all clients share one address, and one attacker locks out everybody."""
    assert "Set\ningress.trustedProxies" in render({"ingress": {"enabled": True, "host": "t.org"}}).notes
    assert "trustedProxies" not in release("postgresql").notes + release("sqlite").notes


def test_only_trusted_proxies_may_name_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """O-06: through the variable that uvicorn reads."""
    given = variables(container("postgresql"))["FORWARDED_ALLOW_IPS"]
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", given)
    assert uvicorn.Config("controller.app:app").forwarded_allow_ips == "10.1.0.11,10.1.0.12"
    assert "FORWARDED_ALLOW_IPS" not in variables(container("sqlite"))


def test_a_changed_setting_restarts_the_pods() -> None:
    """O-01: settings are read only when a controller starts."""

    def checksum(values: dict[str, Any]) -> str:
        return str(
            render(values).single("Deployment")["spec"]["template"]["metadata"]["annotations"]["checksum/settings"]
        )

    assert checksum({}) == checksum({"replicaCount": 0})
    assert checksum({}) != checksum({"controller": {"executionQps": 11}})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"replicaCount": 2}, "replicaCount: 2 controllers cannot share one SQLite file; set database.type=postgresql"),
        ({"split": {"enabled": True}}, "split.enabled: two Deployments cannot share one SQLite file"),
        ({"database": {"type": "postgresql"}}, "database.postgresql.existingSecret: PostgreSQL needs a Secret"),
        (merged(ON_POSTGRESQL, {"database": {"type": "sqlite"}}), "it is not used with database.type=sqlite"),
        ({"access": {"oidc": {"issuer": "https://a.org"}}}, "access.oidc: issuer and audience belong together"),
        ({"metrics": {"serviceMonitor": {"enabled": True}}}, "metrics.serviceMonitor.tokenSecret: /metrics takes"),
        ({"ingress": {"enabled": True}}, "ingress.host: an Ingress needs the name people use"),
        (DEFAULT_ACCOUNT | at("launchers.kubernetes.enabled", True), "serviceAccount.name: the rights of launchers"),
        (DEFAULT_ACCOUNT | at("taskSecrets.kubernetes.enabled", True), "serviceAccount.name: the rights of launchers"),
        ({"baseline": "now"}, "baseline: a volume that this install makes holds nothing"),
        ({"controller": {"resyncInterval": "0s"}}, "controller.resyncInterval: it must be 1s or more"),
        (EGRESS_RESTRICTED | ON_POSTGRESQL, "networkPolicy.egress: with restrictEgress no pod reaches the database"),
        (
            {"access": {"oidc": {"issuer": "https://a.org", "audience": "a"}}},
            "access.oidc.grants: nobody whom the issuer vouches for is granted anything",
        ),
        (
            {"metrics": {"serviceMonitor": {"enabled": True, "tokenSecret": "a", "scrapeTimeout": "1m"}}},
            "metrics.serviceMonitor.scrapeTimeout: 1m is longer than the interval of 30s",
        ),
    ],
    ids=[
        "replicas",
        "split",
        "secret missing",
        "secret unused",
        "audience missing",
        "token missing",
        "host missing",
        "launcher rights for the default account",
        "secret rights for the default account",
        "baseline of a new volume",
        "interval of zero",
        "egress to nowhere",
        "no grants",
        "scrape timeout too long",
    ],
)
def test_conflicting_values_are_refused_with_a_hint(values: dict[str, Any], message: str) -> None:
    """O-01, U-01: before anything is installed."""
    assert message in refusal(values)


def test_an_existing_account_gets_the_rights() -> None:
    """O-01: it is named and not created."""
    values = {"serviceAccount": {"create": False, "name": "own"}, "launchers": {"kubernetes": {"enabled": True}}}
    [subject] = render(values).single("RoleBinding")["subjects"]
    assert subject["name"] == "own"
    assert render(values).of_kind("ServiceAccount") == []


def test_all_modes_differ() -> None:
    """O-01: no mode is listed twice."""
    assert len({str(release(mode).texts) for mode in MODES}) == len(MODES)

"""What each mode of the chart is for."""

import re
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from controller.parts import PARTS
from reconcile.protocols import SecretPlaces
from reconcile.runs.secrets.files import source
from revisions.spec import documents
from tests.chart.modes import EVERYTHING, MODES, ON_POSTGRESQL, release
from tests.chart.objects import NAMESPACE, at, merged, refusal, render
from tests.chart.values import default
from tests.docs import pages

ANYBODYS = {"serviceAccount": {"create": False}}
"""With the account that every pod of the namespace has."""
FENCED = {"networkPolicy": {"enabled": True, "restrictEgress": True}}


def controller(mode: str, name: str = "acme-triggerctl") -> dict[str, Any]:
    """The specification of a Deployment."""
    [found] = [each for each in release(mode).of("Deployment") if each["metadata"]["name"] == name]
    return dict(found["spec"])


def container(mode: str, name: str = "acme-triggerctl") -> dict[str, Any]:
    [found] = controller(mode, name)["template"]["spec"]["containers"]
    return dict(found)


def variables(found: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in found["env"]}


def test_sqlite_is_one_controller_with_its_file_on_a_volume() -> None:
    """O-01: the old pod is gone before the new one opens the file; no migration runs beside it."""
    spec = controller("sqlite")
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    assert variables(container("sqlite"))["TRIGGERCTL_DATABASE_URL"] == "sqlite:////data/triggerctl.db"
    claim = release("sqlite").one("PersistentVolumeClaim")
    assert claim["spec"]["resources"]["requests"]["storage"] == "20Gi"
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert {"name": "data", "mountPath": "/data"} in container("sqlite")["volumeMounts"]
    assert release("sqlite").settings()["work_dir"].startswith("/data/")
    assert release("sqlite").of("Job") == []


def test_a_pod_on_sqlite_may_migrate_for_as_long_as_a_job_might() -> None:
    """O-01: killed in the middle, it would begin anew for ever."""
    probe = container("sqlite")["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] == default("migrations.timeoutSeconds")


def test_an_existing_claim_is_used_and_none_is_made() -> None:
    """O-01: existing objects are named, never made again; the account too."""
    installed = release("sqlite on a claim")
    assert installed.of("PersistentVolumeClaim") + installed.of("ServiceAccount") == []
    [data] = [each for each in controller("sqlite on a claim")["template"]["spec"]["volumes"] if each["name"] == "data"]
    assert data["persistentVolumeClaim"]["claimName"] == "old"
    assert controller("sqlite on a claim")["template"]["spec"]["serviceAccountName"] == "default"


def test_postgresql_is_several_controllers_that_are_replaced_one_by_one() -> None:
    """O-01: with the URL from a Secret that is there, and nowhere else."""
    spec = controller("postgresql")
    assert spec["replicas"] == 3
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    reference = {"secretKeyRef": {"name": "triggerctl-database", "key": "url"}}
    assert variables(container("postgresql"))["TRIGGERCTL_DATABASE_URL"] == reference
    assert release("postgresql").of("Secret") + release("postgresql").of("PersistentVolumeClaim") == []


def test_migrations_run_before_anything_is_replaced() -> None:
    """O-01: a Job before install and upgrade, which needs nothing that only the install makes."""
    installed = release("postgresql")
    job = installed.one("Job")
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
    assert release("postgresql migrated by hand").of("Job") == []


def test_a_restored_database_is_begun_anew_before_any_controller_is_there() -> None:
    """O-07: by a Job of its own, once the schema is this release's, and not again when it was refused."""
    migrations, baseline = release("split restored").of("Job")
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
    named = [each["metadata"]["name"] for each in release("split restored").of("NetworkPolicy")]
    assert "acme-triggerctl-baseline" in named
    assert "Leave `baseline`\nout from now on" in release("split restored").notes
    assert "baseline" not in release("split").notes
    [on_sqlite] = release("sqlite restored").of("Job")
    pod = on_sqlite["spec"]["template"]["spec"]
    assert {"name": "data", "persistentVolumeClaim": {"claimName": "restored"}} in pod["volumes"]
    assert variables(pod["containers"][0])["TRIGGERCTL_DATABASE_URL"] == "sqlite:////data/triggerctl.db"


def test_a_network_policy_for_the_migrations_is_there_before_them() -> None:
    """O-01: in a namespace that denies by default they reach the database, too."""
    installed = release("split")
    [policy] = [each for each in installed.of("NetworkPolicy") if each["metadata"]["name"].endswith("migrations")]
    weights = [each["metadata"]["annotations"]["helm.sh/hook-weight"] for each in (policy, installed.one("Job"))]
    assert int(weights[0]) < int(weights[1])
    assert {"port": 5432} in policy["spec"]["egress"][2]["ports"]


def test_pgbouncer_has_a_way_past_it() -> None:
    """O-09: notices and migrations go to the server itself."""
    direct = {"secretKeyRef": {"name": "triggerctl-database", "key": "listen-url"}}
    assert variables(container("split", "acme-triggerctl-worker"))["TRIGGERCTL_LISTEN_URL"] == direct
    [migrations] = release("split").one("Job")["spec"]["template"]["spec"]["containers"]
    assert variables(migrations)["TRIGGERCTL_DATABASE_URL"] == direct


def test_split_is_two_deployments_of_which_people_reach_one() -> None:
    """O-01: no task runs beside what people reach; both are scraped."""
    installed = release("split")
    assert container("split", "acme-triggerctl-api")["args"] == ["up", "--without=loop,runner"]
    assert container("split", "acme-triggerctl-worker")["args"] == ["up", "--without=web"]
    components = {
        each["metadata"]["name"]: each["spec"]["selector"]["app.kubernetes.io/component"]
        for each in installed.of("Service")
    }
    assert components == {"acme-triggerctl": "api", "acme-triggerctl-worker": "worker"}
    [path] = installed.one("Ingress")["spec"]["rules"][0]["http"]["paths"]
    assert path["backend"]["service"]["name"] == "acme-triggerctl"
    scraped = installed.one("ServiceMonitor")["spec"]["selector"]["matchLabels"]
    assert all(scraped.items() <= each["metadata"]["labels"].items() for each in installed.of("Service"))


def test_the_key_that_signs_is_no_neighbour_of_tasks_when_split() -> None:
    """O-01, R-10: a task that could read it could make history anew, and sign that."""
    mounts = {name: container("everything", f"acme-triggerctl-{name}")["volumeMounts"] for name in ("api", "worker")}
    key_file = Path(release("everything").settings()["checkpoint_key_file"])
    kept = {name: str(key_file.parent) in [each["mountPath"] for each in found] for name, found in mounts.items()}
    assert kept == {"api": True, "worker": False}
    alone = render({"checkpoints": {"existingSecret": "signing"}}).one("Deployment")["spec"]["template"]["spec"]
    assert {"name": "checkpoints", "secret": {"secretName": "signing", "defaultMode": 0o440}} in alone["volumes"]


def test_an_empty_list_opens_no_door() -> None:
    """O-01: to Kubernetes it would mean everybody."""
    assert "at '/networkPolicy/from': minItems: got 0, want 1" in refusal({"networkPolicy": {"from": []}})


def test_a_node_is_not_kept_by_pods_that_are_not_ready() -> None:
    """O-01: without its database no pod is, and no drain would end before it is back."""
    for budget in release("split").of("PodDisruptionBudget"):
        assert budget["spec"]["maxUnavailable"] == 1
        assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_jobs_are_started_where_it_was_said_and_nowhere_else() -> None:
    """O-01, X-10: with the rights that docs/tasks.md says the launcher needs, and no more."""
    role = release("split").one("Role")
    assert role["metadata"]["namespace"] == "triggerctl-jobs"
    [described] = re.findall(
        r"^kind: Role\n.*?^(rules:\n.*?)^```$", pages.text("docs/tasks.md"), re.MULTILINE | re.DOTALL
    )
    assert role["rules"] == documents.load(described)[0]["rules"]
    assert release("postgresql").of("Role") == []


def test_other_launchers_get_what_they_need() -> None:
    """O-01: beside the rights for Jobs, in the same namespaces, or in the whole cluster."""
    [role] = [each for each in release("everything").of("Role") if each["metadata"]["namespace"] == "triggerctl-jobs"]
    assert EVERYTHING["launchers"]["extraRules"][0] in role["rules"]
    assert release("everything").one("ClusterRole")["rules"] == EVERYTHING["launchers"]["extraClusterRules"]


def test_secrets_of_tasks_are_read_where_it_was_said_and_no_others() -> None:
    """O-01, X-12: files of one Secret; through the API those of the scopes that are named."""
    [role] = [each for each in release("everything").of("Role") if each["metadata"]["namespace"] == NAMESPACE]
    [rule] = role["rules"]
    assert (rule["resources"], rule["verbs"]) == (["secrets"], ["get"])
    assert rule["resourceNames"] == ["triggerctl", "triggerctl-client-7"]
    found = release("everything").settings()
    assert found["secrets_from"].endswith("kubernetes")
    mounts = container("everything", "acme-triggerctl-worker")["volumeMounts"]
    assert {"name": "secrets", "mountPath": found["secrets_dir"], "readOnly": True} in mounts


def test_files_of_secrets_lie_where_the_controller_looks_for_them() -> None:
    """O-01, X-12: those of a scope below its name, which a key of a Secret cannot say."""
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
def test_a_scope_names_its_secret_and_its_keys(without: str) -> None:
    """O-01: a file has a path only if its key is said."""
    scope = {"existingSecret": "client-7", "keys": ["GA_TOKEN"]}
    del scope[without]
    assert f"missing property '{without}'" in refusal({"taskSecrets": {"scopes": {"client-7": scope}}})


@pytest.mark.parametrize(
    ("grace", "seconds"),
    [("10s", 10), ("5m", 300), ("1h", 3600), ("1.5m", 90), ("0.2s", 1), ("1d", 86400)],
    ids=["seconds", "minutes", "hours", "a fraction", "less than a second", "a day"],
)
def test_kubernetes_waits_longer_than_a_graceful_stop_takes(grace: str, seconds: int) -> None:
    """O-05: the wait for requests to stay away, the grace for tasks, and twenty seconds to end the rest."""
    found = render({"controller": {"stopGrace": grace}, "preStopSeconds": 7}).one("Deployment")
    pod = found["spec"]["template"]["spec"]
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
def test_tasks_are_told_an_address_that_leads_here(values: dict[str, Any], url: str) -> None:
    """O-01: the Service's, for an Ingress may be out of reach of a pod; or the one that was given."""
    assert render(values).settings()["url"] == url


@pytest.mark.parametrize(("values", "url"), [({}, "http://t.org"), ({"tlsSecret": "tls"}, "https://t.org")], ids=str)
def test_people_are_told_the_ingress(values: dict[str, Any], url: str) -> None:
    """O-01: in the notes."""
    assert f" and {url};" in render({"ingress": {"enabled": True, "host": "t.org", **values}}).notes


def test_people_are_told_that_their_addresses_are_not_known() -> None:
    """O-06: behind an Ingress that is not believed, one stranger keeps all out."""
    assert "Set\ningress.trustedProxies" in render({"ingress": {"enabled": True, "host": "t.org"}}).notes
    assert "trustedProxies" not in release("postgresql").notes + release("sqlite").notes


def test_the_ingress_is_believed_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """O-06: by the variable that the server goes by; nobody else is."""
    given = variables(container("postgresql"))["FORWARDED_ALLOW_IPS"]
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", given)
    assert uvicorn.Config("controller.app:app").forwarded_allow_ips == "10.1.0.11,10.1.0.12"
    assert "FORWARDED_ALLOW_IPS" not in variables(container("sqlite"))


def test_a_changed_setting_restarts_the_pods() -> None:
    """O-01: what is read at the start only must not stay unread."""

    def checksum(values: dict[str, Any]) -> str:
        return str(render(values).one("Deployment")["spec"]["template"]["metadata"]["annotations"]["checksum/settings"])

    assert checksum({}) == checksum({"replicaCount": 0})
    assert checksum({}) != checksum({"controller": {"executionQps": 11}})


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"replicaCount": 2}, "replicaCount: 2 controllers cannot share one SQLite file; set database.type=postgresql"),
        ({"split": {"enabled": True}}, "split.enabled: two Deployments cannot share one SQLite file"),
        ({"database": {"type": "postgresql"}}, "database.postgresql.existingSecret: PostgreSQL needs a Secret"),
        (merged(ON_POSTGRESQL, {"database": {"type": "sqlite"}}), "it is not used with database.type=sqlite"),
        ({"access": {"oidc": {"issuer": "https://a.org"}}}, "access.oidc: issuer and audience belong together"),
        ({"metrics": {"serviceMonitor": {"enabled": True}}}, "metrics.serviceMonitor.tokenSecret: /metrics takes"),
        ({"ingress": {"enabled": True}}, "ingress.host: an Ingress needs the name people use"),
        (ANYBODYS | at("launchers.kubernetes.enabled", True), "serviceAccount.name: the rights of launchers"),
        (ANYBODYS | at("taskSecrets.kubernetes.enabled", True), "serviceAccount.name: the rights of launchers"),
        ({"baseline": "now"}, "baseline: a volume that this install makes holds nothing"),
        ({"controller": {"resyncInterval": "0s"}}, "controller.resyncInterval: it must be 1s or more"),
        (FENCED | ON_POSTGRESQL, "networkPolicy.egress: with restrictEgress no pod reaches the database"),
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
        "Jobs by anybody",
        "secrets for anybody",
        "nothing restored",
        "no interval",
        "fenced off",
        "nothing granted",
        "late scrapes",
    ],
)
def test_what_cannot_stand_together_is_refused_with_the_way_out(values: dict[str, Any], said: str) -> None:
    """O-01, U-01: before anything is installed."""
    assert said in refusal(values)


def test_rights_go_to_an_account_that_is_there_already() -> None:
    """O-01: by its name; none is made."""
    values = {"serviceAccount": {"create": False, "name": "own"}, "launchers": {"kubernetes": {"enabled": True}}}
    [subject] = render(values).one("RoleBinding")["subjects"]
    assert subject["name"] == "own"
    assert render(values).of("ServiceAccount") == []


def test_every_mode_is_another() -> None:
    """O-01: no mode of the list is there twice."""
    assert len({str(release(mode).texts) for mode in MODES}) == len(MODES)

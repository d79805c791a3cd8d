"""Behaviour of the launcher `kubernetes` alone: the objects it creates and removes, and the answers of a cluster."""

import base64
import itertools
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from reconcile import plugins
from reconcile.launchers.shared import (
    block_faults,
    kubernetes_cluster,
    kubernetes_job,
    kubernetes_pod,
    remote_job,
)
from reconcile.plugins import Failed, Launch, LaunchError, Lost, Running, Succeeded, Work, WorkProgress
from tests.blocks import block_of, faults_of, written_block
from tests.contract.cluster import VERSION, Call, Cluster, Status
from tests.contract.test_launchers import end
from tests.waiting import eventually

RUN = "01M8M6BTAN8HXD64DS3X5DECZD"
OURS, THEIRS = "01M8M5ZV6W5GQ7B7ZJQHN4QK2M", "01M8M60F0S2T2YB3V5C1X9A7RE"
"""Two installations."""
NAME = "triggerctl-01m8m6btan8hxd64ds3x5deczd-2"
JOBS = "/apis/batch/v1/namespaces/runs/jobs"
SECRETS = "/api/v1/namespaces/runs/secrets"
DOCUMENT = {
    "run": {"id": RUN, "project": "acme", "trigger": "acme/production/report/weekly"},
    "input": {},
    "secrets": {"GA_TOKEN": "s3cret"},
}
WAIT_FOR_FILE = (
    "import os, sys, time\nprint('up', flush=True)\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.002)"
)


POLL_INTERVALS = ("FIRST_POLL", "LAST_POLL", "SUBSCRIBED_POLL")


class Starter:
    """Start attempts in one cluster and forget them at the end."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self.folder, self.cluster = folder, cluster
        self.started: list[Work] = []

    def launch(self, code: str = "", *arguments: str, **block: Any) -> Launch:
        spec = {"image": "python:3.12-alpine", "command": ["python", "-S", "-c", code, *arguments], **block}
        environment = {"TRIGGERCTL_RUN_ID": RUN, "TRIGGERCTL_TOKEN": "t0ken", "TRACEPARENT": "00-a-b-01"}
        read = block_of("kubernetes", spec)
        return Launch(RUN, 2, self.folder / "attempt", self.folder, read, DOCUMENT, environment, 600, OURS)

    def start(self, code: str = "", *arguments: str, **block: Any) -> Work:
        self.started.append(plugins.launcher("kubernetes").start(self.launch(code, *arguments, **block)))
        return self.started[-1]

    def start_another(self, number: int, code: str = "", **block: Any) -> Work:
        """Start another attempt beside the first."""
        launch = replace(self.launch(code, **block), attempt=number, folder=self.folder / f"attempt{number}")
        self.started.append(plugins.launcher("kubernetes").start(launch))
        return self.started[-1]

    def poll_count(self) -> int:
        """Return how often the first attempt's Job was read."""
        return self.cluster.calls.count(Call("GET", f"{JOBS}/{NAME}"))

    def wait_until_unpolled(self) -> None:
        """Wait until the first attempt's Job is not read while another attempt starts and ends."""
        numbers = itertools.count(3)

        def is_unpolled() -> bool:
            before = self.poll_count()
            end(self.start_another(next(numbers)))
            return self.poll_count() == before

        eventually(is_unpolled)

    def start_waiting(self) -> Work:
        """Start work that runs until the file `go` exists."""
        work = self.start(WAIT_FOR_FILE, str(self.folder / "go"))
        eventually(lambda: work.log.read(0, 9) == b"up\n")
        return work


@pytest.fixture
def starter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Starter]:
    with Cluster() as cluster:
        monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig(tmp_path)))
        starter = Starter(tmp_path, cluster)
        yield starter
        for work in starter.started:
            work.forget()


@pytest.fixture
def watched_only(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> Starter:
    """Starter whose Jobs are read only after a watch event."""
    for name in POLL_INTERVALS:
        monkeypatch.setattr(remote_job, name, 600.0)
    monkeypatch.setattr(kubernetes_cluster, "WATCH_PAUSES", (600.0, 600.0))
    return starter


def failed(progress: WorkProgress) -> str:
    assert isinstance(progress, Failed)
    return progress.error


def test_a_job_is_valid_and_labelled(starter: Starter) -> None:
    """X-10: it is named by run and attempt, runs once, and is ended by the cluster if no controller does it."""
    block: dict[str, Any] = {
        "args": ["a"],
        "env": {"LEVEL": "info", "PRICE": "$(5)", "TRIGGERCTL_RUN_ID": "mine"},
        "namespace": "batch",
        "service_account": "report",
        "resources": {"limits": {"memory": "256Mi"}},
        "node_selector": {"disk": "ssd"},
        "image_pull_secrets": ["registry"],
    }
    job = kubernetes_job.job(starter.launch(**block))
    kubernetes_validate.validate(job, VERSION, strict=True)
    assert job["metadata"] == {
        "name": NAME,
        "labels": {
            "app.kubernetes.io/managed-by": "triggerctl",
            "triggerctl/run": RUN,
            "triggerctl/attempt": "2",
            "triggerctl/installation": OURS,
            "triggerctl/project": "acme",
            "triggerctl/trigger": "weekly",
        },
        "annotations": {"triggerctl/trigger": "acme/production/report/weekly"},
    }
    assert (job["spec"]["backoffLimit"], job["spec"]["activeDeadlineSeconds"]) == (0, 660)
    pod = job["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["nodeSelector"]) == ("report", {"disk": "ssd"})
    environment = {variable["name"]: variable.get("value") for variable in pod["containers"][0]["env"]}
    assert environment["LEVEL"] == "info"
    assert environment["PRICE"] == "$$(5)"
    assert environment["TRIGGERCTL_RUN_ID"] is None


def test_without_an_account_a_pod_gets_no_credentials(starter: Starter) -> None:
    """X-12: a task does not get the token of the namespace's default account."""
    pod = kubernetes_job.job(starter.launch())["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False


def test_secrets_and_token_are_only_in_the_secret(starter: Starter) -> None:
    """X-12: those who may read Jobs and pods do not see them, and the Secret is deleted with its Job."""
    launch = starter.launch()
    assert "s3cret" not in json.dumps(kubernetes_job.job(launch))
    assert "t0ken" not in json.dumps(kubernetes_job.job(launch))
    secret = kubernetes_job.secret(launch, "uid-1")
    kubernetes_validate.validate(secret, VERSION, strict=True)
    assert json.loads(base64.b64decode(secret["data"]["input.json"])) == DOCUMENT
    assert base64.b64decode(secret["data"]["TRIGGERCTL_TOKEN"]) == b"t0ken"
    [owner] = secret["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Job", NAME, "uid-1")


def test_the_environment_of_the_contract_reaches_the_container(starter: Starter) -> None:
    """X-03, O-04: together with the task's own variables."""
    code = "import json, os; open(os.environ['TRIGGERCTL_OUTPUT'], 'w').write(json.dumps(dict(os.environ)))"
    progress = end(starter.start(code, env={"LEVEL": "info"}))
    assert isinstance(progress, Succeeded)
    assert progress.output["TRIGGERCTL_TOKEN"] == "t0ken"
    assert progress.output["TRACEPARENT"] == "00-a-b-01"
    assert progress.output["LEVEL"] == "info"


def test_job_and_secret_are_deleted_after_the_end(starter: Starter) -> None:
    """X-12, X-10: once the result is stored here."""
    assert end(starter.start()) == Succeeded({})
    eventually(lambda: not starter.cluster.jobs)
    assert not starter.cluster.secrets


def test_forgotten_work_is_ended(starter: Starter) -> None:
    """X-10: forgetting leaves nothing running."""
    starter.start_waiting().forget()
    eventually(lambda: not starter.cluster.jobs)
    assert not (starter.folder / "attempt").exists()


def test_an_adopter_does_not_double_the_log(starter: Starter) -> None:
    """X-17: two controllers that follow the same Job in turn write one log."""
    starter.start_waiting()
    adopted = plugins.launcher("kubernetes").adopt(starter.folder / "attempt")
    assert adopted is not None
    (starter.folder / "go").touch()
    assert end(adopted) == Succeeded({})
    assert adopted.log.read(0, 99) == b"up\n"


def test_an_adopter_does_not_rewrite_dropped_parts_of_a_log(starter: Starter) -> None:
    """X-17: it reads the pod's log from the beginning, and skips what was dropped."""
    code = f"print('0' * {3 * 2**20})\n{WAIT_FOR_FILE}"
    work = starter.start(code, str(starter.folder / "go"))
    eventually(lambda: work.log.size() == 3 * 2**20 + 4)
    work.log.drop(2**20, 2**21)
    adopted = plugins.launcher("kubernetes").adopt(starter.folder / "attempt")
    assert adopted is not None
    (starter.folder / "go").touch()
    assert end(adopted) == Succeeded({})
    assert adopted.log.read(2**20 - 1, 3) == b"0\0\0"
    assert adopted.log.read(2**21 - 1, 3) == b"\x0000"
    assert adopted.log.read(3 * 2**20, 99) == b"\nup\n"


def test_an_adopter_creates_the_missing_secret(starter: Starter) -> None:
    """Invariant 5: after a kill between Job and Secret it finds the Job by its name."""
    launch = starter.launch()
    folder = launch.folder
    folder.mkdir(mode=0o700)
    facts: dict[str, Any] = {
        "run_id": RUN,
        "attempt": 2,
        "folder": str(folder),
        "root": str(launch.root),
        "timeout_seconds": 600,
    }
    (folder / "launch.json").write_text(
        json.dumps(facts | {"spec": written_block(launch.block), "environment": launch.environment})
    )
    (folder / "input.json").write_text(json.dumps(launch.input))
    (folder / "started").touch()
    starter.cluster.create_job(kubernetes_job.job(launch))
    adopted = plugins.launcher("kubernetes").adopt(folder)
    assert adopted is not None
    starter.started.append(adopted)
    assert end(adopted) == Succeeded({})


def test_a_start_waits_until_the_earlier_job_is_gone(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-10: an attempt that was handed back starts again under the same name."""
    monkeypatch.setattr("reconcile.launchers.shared.remote_job.PAUSES", (0.05,) * 10_000)
    cluster = starter.cluster
    old = starter.launch(WAIT_FOR_FILE, str(starter.folder / "go"))
    job = cluster.create_job(kubernetes_job.job(old))
    cluster.create_secret(kubernetes_job.secret(old, job["metadata"]["uid"]))
    job["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    work = starter.start("print('anew')")
    eventually(lambda: cluster.calls.count(Call("POST", JOBS)) > 1)
    assert work.poll() == Running(elsewhere=True)
    (starter.folder / "go").touch()
    assert end(work) == Succeeded({})
    assert work.log.read(0, 99) == b"anew\n"


def create_foreign_job(starter: Starter) -> dict[str, Any]:
    """Create a running Job of another installation under the attempt's name, with its Secret."""
    launch = replace(starter.launch(WAIT_FOR_FILE, str(starter.folder / "go")), installation=THEIRS)
    job = starter.cluster.create_job(kubernetes_job.job(launch))
    starter.cluster.create_secret(kubernetes_job.secret(launch, job["metadata"]["uid"]))
    return job


def is_untouched(starter: Starter) -> bool:
    deleted = [call for call in starter.cluster.calls if call.method == "DELETE"]
    return not deleted and starter.cluster.pods[NAME].exit_code is None and f"runs/{NAME}" in starter.cluster.secrets


def test_a_job_of_another_installation_is_neither_adopted_nor_ended(starter: Starter) -> None:
    """X-10: a copy of the database uses the same names as the original."""
    create_foreign_job(starter)
    work = starter.start()
    error = failed(end(work))
    assert error.startswith(f"the Job {NAME} in runs is of another installation, {THEIRS}, and this one is {OURS}")
    assert error.endswith("fire anew instead")
    work.forget()
    assert is_untouched(starter)


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_job_replaced_by_another_installation_fails_the_attempt(starter: Starter, is_cancelled: bool) -> None:
    """X-10: also when it was submitted, looked up by its name, or is to be ended."""
    work = starter.start_waiting()
    with starter.cluster.lock:
        starter.cluster.remove(NAME)
        starter.cluster.calls.clear()
        create_foreign_job(starter)
    if is_cancelled:
        work.cancel(force=True)
    assert "is of another installation" in failed(end(work))
    assert is_untouched(starter)


def test_a_job_without_an_installation_label_is_adopted(starter: Starter) -> None:
    """R-19, X-10: earlier releases set none, and a rolling upgrade meets their Jobs."""
    launch = replace(starter.launch(WAIT_FOR_FILE, str(starter.folder / "go")), installation="")
    job = starter.cluster.create_job(kubernetes_job.job(launch))
    assert kubernetes_job.OWNER not in job["metadata"]["labels"]
    starter.cluster.create_secret(kubernetes_job.secret(launch, job["metadata"]["uid"]))
    work = starter.start()
    (starter.folder / "go").touch()
    assert end(work) == Succeeded({})
    eventually(lambda: not starter.cluster.jobs)
    assert starter.cluster.created == 1


def test_a_secret_of_an_earlier_job_is_replaced(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-12: the cluster's garbage collection may be late."""
    monkeypatch.setattr("reconcile.launchers.shared.remote_job.PAUSES", (0.05,))
    launch = starter.launch()
    starter.cluster.secrets[f"runs/{NAME}"] = kubernetes_job.secret(launch, "another")
    assert end(starter.start()) == Succeeded({})
    assert Call("DELETE", f"{SECRETS}/{NAME}") in starter.cluster.calls


def test_a_refused_start_fails_with_the_clusters_message(starter: Starter) -> None:
    """X-10: immediately and without another try."""
    starter.cluster.refuse = [Status(403, "cannot create resource jobs in the namespace runs")]
    error = failed(end(starter.start()))
    assert error == "the cluster answered 403 Forbidden: cannot create resource jobs in the namespace runs"
    assert starter.cluster.calls.count(Call("POST", JOBS)) == 1


def test_a_job_whose_secret_is_refused_is_deleted(starter: Starter) -> None:
    """X-12: the attempt fails."""
    starter.cluster.refuse_secrets = Status(403, "cannot create resource secrets")
    assert "cannot create resource secrets" in failed(end(starter.start()))
    eventually(lambda: not starter.cluster.jobs)


def test_an_unreachable_cluster_does_not_fail_running_work(starter: Starter) -> None:
    """X-10: the work is awaited until its timeout."""
    work = starter.start_waiting()
    starter.cluster.refuse = [Status(503, "upgrading"), Status(401, "Unauthorized"), Status(500, "etcd")]
    starter.cluster.break_off = [None]
    eventually(lambda: not starter.cluster.refuse)
    assert work.poll() == Running(elsewhere=True)
    (starter.folder / "go").touch()
    assert end(work) == Succeeded({})


def test_an_invalid_answer_of_a_proxy_does_not_fail_running_work(starter: Starter) -> None:
    """X-10: even if its status is success."""
    work, cluster = starter.start_waiting(), starter.cluster
    cluster.invalid_pod_lists = [None, [], {"items": None}]
    cluster.break_off = [None]
    eventually(lambda: not cluster.invalid_pod_lists)
    (starter.folder / "go").touch()
    assert end(work) == Succeeded({})


def test_a_forced_end_holds_although_the_cluster_cannot_confirm_it(
    starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X-10, X-05: a timeout is enforced, and the error says that the end was not confirmed."""
    monkeypatch.setattr(remote_job, "SECONDS_TO_CONFIRM", 0.1)
    work = starter.start_waiting()
    starter.cluster.refuse = [Status(503, "upgrading")] * 100_000
    starter.cluster.break_off = [None]
    polls = starter.poll_count() + 3  # the first may precede the refusal, and a failed one shows at the next
    eventually(lambda: starter.poll_count() >= polls)

    def force() -> bool:
        """Force the end and poll, as the runner does in each pass."""
        work.cancel(force=True)
        return not isinstance(work.poll(), Running)

    eventually(force)
    assert work.poll() == Failed("was given up: the cluster answered 503 Service Unavailable: upgrading")
    starter.cluster.refuse = []


def test_a_timeout_reports_an_image_that_cannot_be_pulled(starter: Starter) -> None:
    """X-10: it says why nothing ran."""
    starter.cluster.never_pulls = True
    work = starter.start()
    eventually(lambda: starter.poll_count() > 1)
    work.cancel()
    assert end(work) == Failed(f"{kubernetes_pod.GONE}: ImagePullBackOff: no such image")


def test_a_deleted_job_is_lost(starter: Starter) -> None:
    """X-10: nobody asked for it, so another attempt follows."""
    work = starter.start_waiting()
    with starter.cluster.lock:
        starter.cluster.remove(NAME)
    assert end(work) == Lost(kubernetes_pod.GONE)


def test_the_start_and_end_of_a_pod_are_noticed_by_a_watch(watched_only: Starter) -> None:
    """X-10: without polling."""
    work = watched_only.start_waiting()
    (watched_only.folder / "go").touch()
    assert end(work) == Succeeded({})


def test_a_deletion_is_noticed_by_a_watch(watched_only: Starter) -> None:
    """X-10: whoever deletes the Job."""
    work = watched_only.start_waiting()
    with watched_only.cluster.lock:
        watched_only.cluster.remove(NAME)
    assert end(work) == Lost(kubernetes_pod.GONE)


def test_a_namespace_has_one_watch(watched_only: Starter) -> None:
    """X-10: one stream reports all its attempts."""
    for number in (3, 4, 5):
        assert end(watched_only.start_another(number)) == Succeeded({})
    assert watched_only.cluster.calls.count(Call("WATCH", JOBS)) == 1


@pytest.mark.parametrize("ending", [None, Status(410, "too old resource version"), Status(500, "etcd")], ids=str)
def test_a_broken_watch_is_started_again(
    watched_only: Starter, ending: Status | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X-10: it reports all Jobs again after a timeout, an expired version or an upgrade."""
    monkeypatch.setattr(kubernetes_cluster, "WATCH_PAUSES", (0.01, 0.01))
    work = watched_only.start_waiting()
    cluster = watched_only.cluster
    cluster.refuse_watches = [Status(503, "upgrading"), Status(503, "upgrading")]
    cluster.break_off = [ending]
    eventually(lambda: cluster.calls.count(Call("WATCH", JOBS)) > 3)
    (watched_only.folder / "go").touch()
    assert end(work) == Succeeded({})


def test_without_the_right_to_watch_jobs_are_polled(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-10: with the rights of an earlier release, or while the cluster refuses the watch."""
    monkeypatch.setattr(remote_job, "SUBSCRIBED_POLL", 600.0)
    monkeypatch.setattr(kubernetes_cluster, "WATCH_PAUSES", (600.0, 600.0))
    starter.cluster.refuse_watches = [Status(403, "cannot watch resource jobs")]
    work = starter.start_waiting()
    assert not starter.cluster.refuse_watches
    (starter.folder / "go").touch()
    assert end(work) == Succeeded({})


def test_a_silent_watch_is_backed_by_polling(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-10: a dead connection may go unnoticed."""
    for name, seconds in zip(POLL_INTERVALS, (600.0, 600.0, 0.01), strict=True):
        monkeypatch.setattr(remote_job, name, seconds)
    work = starter.start_waiting()
    starter.cluster.is_mute = True
    (starter.folder / "go").touch()
    assert end(work) == Succeeded({})


@pytest.mark.parametrize("failing", ["the watch", "the answer"])
def test_a_lost_watch_is_replaced_by_polling(starter: Starter, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    """X-10: also when the watch reports a Job that cannot be read just then."""
    for name, seconds in zip(POLL_INTERVALS, (0.01, 0.01, 600.0), strict=True):
        monkeypatch.setattr(remote_job, name, seconds)
    monkeypatch.setattr(kubernetes_cluster, "WATCH_PAUSES", (600.0, 600.0))
    work, cluster = starter.start_waiting(), starter.cluster
    starter.wait_until_unpolled()
    if failing == "the watch":
        cluster.break_off = [None]
        eventually(lambda: not cluster.watchers)
    else:
        cluster.refuse = [Status(503, "upgrading")] * 2
    (starter.folder / "go").touch()
    assert end(work) == Succeeded({})


def test_a_watched_job_is_not_polled(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-10: while another attempt starts and ends."""
    for name, seconds in zip(POLL_INTERVALS, (0.001, 0.001, 600.0), strict=True):
        monkeypatch.setattr(remote_job, name, seconds)
    starter.start_waiting()
    starter.wait_until_unpolled()


def test_a_watch_ends_with_the_last_attempt(watched_only: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-10: it is not started again."""
    monkeypatch.setattr(kubernetes_cluster, "WATCH_PAUSES", (0.01, 0.01))
    assert end(watched_only.start(namespace="quiet")) == Succeeded({})
    watched_only.cluster.break_off = [None]
    eventually(lambda: "watch quiet" not in [thread.name for thread in threading.enumerate()])


def test_a_missing_cluster_fails_the_attempt_with_a_hint(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-10: the hint names KUBECONFIG."""
    monkeypatch.setenv("KUBECONFIG", str(starter.folder / "nothing"))
    assert "set KUBECONFIG, or run in one" in failed(end(starter.start()))


def test_in_a_pod_the_surrounding_cluster_is_used(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-10: unless KUBECONFIG names another; its account's token is required."""
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr("kubernetes.config.incluster_config.SERVICE_TOKEN_FILENAME", str(starter.folder / "nothing"))
    assert failed(end(starter.start())).startswith("knows no cluster: Service token file does not exist")


def test_a_missing_extra_is_reported_with_the_command_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """X-10: when the task is registered and when it is launched."""
    monkeypatch.setattr(block_faults, "find_spec", lambda name: None)
    [fault] = faults_of("kubernetes", {"image": "a"})
    assert fault.hint == "pip install 'triggerctl[kubernetes]'"


@pytest.mark.parametrize(
    ("condition", "terminated", "progress"),
    [
        (("Failed", "DeadlineExceeded"), None, Failed("ran longer than its deadline in the cluster")),
        (
            ("Failed", "BackoffLimitExceeded"),
            {"exitCode": 137, "reason": "OOMKilled"},
            "OOMKilled: killed by SIGKILL: the last line",
        ),
        (("Failed", "BackoffLimitExceeded"), {"exitCode": 2, "reason": "Error"}, "exited with code 2: the last line"),
        (("Failed", "BackoffLimitExceeded"), None, "BackoffLimitExceeded: said"),
        (("Complete", "CompletionsReached"), None, "it is complete, and its pod is gone with what it answered"),
        (("Complete", "CompletionsReached"), {"exitCode": 0, "message": '{"a": 1}'}, Succeeded({"a": 1})),
        (("FailureTarget", "BackoffLimitExceeded"), {"exitCode": 2}, Running()),
    ],
)
def test_conditions_of_a_job_are_mapped_to_progress(condition: Any, terminated: Any, progress: Any) -> None:
    """X-10: success, failure, and an end imposed by the cluster."""
    kind, reason = condition
    job = {"status": {"conditions": [{"type": kind, "status": "True", "reason": reason, "message": "said"}]}}
    state = {"terminated": terminated} if terminated else {}
    pod = {"status": {"containerStatuses": [{"name": "task", "state": state}]}}
    expected = Failed(progress) if isinstance(progress, str) else progress
    assert kubernetes_pod.progress(job, pod, "the last line") == expected


@pytest.mark.parametrize(
    "status",
    [
        {"reason": "Evicted", "message": "low on memory"},
        {
            "conditions": [
                {"type": "DisruptionTarget", "status": "True", "reason": "Evicted", "message": "low on memory"}
            ]
        },
    ],
    ids=["by the node", "by the cluster"],
)
def test_an_evicted_pod_reports_the_reason(status: Any) -> None:
    """X-10: not only that it was killed; its log does not contain the reason."""
    job = {"status": {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}}
    state = {"terminated": {"exitCode": 137, "reason": "Error"}}
    pod = {"status": {"containerStatuses": [{"name": "task", "state": state}], **status}}
    assert kubernetes_pod.progress(job, pod, "the last line") == Failed("Evicted: low on memory")


def test_an_unschedulable_pod_reports_the_reason() -> None:
    """X-10: for the error of a timeout."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node has 1Ti"}
    assert kubernetes_pod.waiting_reason({"status": {"conditions": [condition]}}) == "Unschedulable: no node has 1Ti"
    creating = {"name": "task", "state": {"waiting": {"reason": "ContainerCreating"}}}
    assert kubernetes_pod.waiting_reason({"status": {"containerStatuses": [creating]}}) == ""


def test_each_attempt_has_its_own_job_name(starter: Starter) -> None:
    """X-10: one attempt, one Job."""
    assert kubernetes_job.name(starter.launch()) == NAME
    assert kubernetes_job.name(replace(starter.launch(), attempt=3)) != NAME


def test_doctor_reports_a_cluster_that_refuses_access(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """O-05: in the cluster's words, for the namespace of the Jobs."""
    system = plugins.launcher("kubernetes").system(block_of("kubernetes", {"image": "a", "namespace": "batch"}))
    assert system is not None
    system.reach()
    assert starter.cluster.calls == [Call("GET", "/apis/batch/v1/namespaces/batch/jobs/triggerctl-doctor")]
    starter.cluster.refuse.append(Status(403, "jobs.batch is forbidden"))
    with pytest.raises(LaunchError, match=r"the cluster answered 403 Forbidden: jobs\.batch is forbidden"):
        system.reach()
    monkeypatch.setenv("KUBECONFIG", str(starter.folder / "none"))
    unknown = plugins.launcher("kubernetes").system(block_of("kubernetes", {"image": "a"}))
    assert unknown is not None
    with pytest.raises(LaunchError, match="knows no cluster"):
        unknown.reach()

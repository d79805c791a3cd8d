"""What is true of `kubernetes` alone: the objects it makes, what it clears away, and what a cluster can say."""

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
from reconcile.launchers.shared import block_faults as blocks
from reconcile.launchers.shared import kubernetes_cluster, kubernetes_job, kubernetes_pod, remote_job
from reconcile.protocols import Failed, Launch, LaunchError, Lost, Running, Succeeded, Work, WorkProgress
from tests.blocks import block_faults, block_of, written_block
from tests.contract.cluster import VERSION, Call, Cluster, Status
from tests.contract.test_launchers import end
from tests.waiting import eventually

RUN = "01M8M6BTAN8HXD64DS3X5DECZD"
OURS, THEIRS = "01M8M5ZV6W5GQ7B7ZJQHN4QK2M", "01M8M60F0S2T2YB3V5C1X9A7RE"
"""Installations."""
NAME = "triggerctl-01m8m6btan8hxd64ds3x5deczd-2"
JOBS = "/apis/batch/v1/namespaces/runs/jobs"
SECRETS = "/api/v1/namespaces/runs/secrets"
DOCUMENT = {
    "run": {"id": RUN, "project": "acme", "trigger": "acme/production/report/weekly"},
    "input": {},
    "secrets": {"GA_TOKEN": "s3cret"},
}
UNTIL = "import os, sys, time\nprint('up', flush=True)\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.002)"


LOOKS = ("FIRST_POLL", "LAST_POLL", "SUBSCRIBED_POLL")


class Starter:
    """Starts attempts in one cluster, and forgets them in the end."""

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
        """An attempt of its own, beside the first."""
        launch = replace(self.launch(code, **block), attempt=number, folder=self.folder / f"attempt{number}")
        self.started.append(plugins.launcher("kubernetes").start(launch))
        return self.started[-1]

    def looks(self) -> int:
        """How often the first attempt was looked at."""
        return self.cluster.calls.count(Call("GET", f"{JOBS}/{NAME}"))

    def is_left_alone(self) -> None:
        """Waits until nobody looks at the first attempt while another begins and ends."""
        numbers = itertools.count(3)

        def nobody_looks() -> bool:
            before = self.looks()
            end(self.start_another(next(numbers)))
            return self.looks() == before

        eventually(nobody_looks)

    def waiting(self) -> Work:
        """Work that runs until `go` is there."""
        work = self.start(UNTIL, str(self.folder / "go"))
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
def watched(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> Starter:
    """Nobody looks but who is told to."""
    for name in LOOKS:
        monkeypatch.setattr(remote_job, name, 600.0)
    monkeypatch.setattr(kubernetes_cluster, "WATCH_PAUSES", (600.0, 600.0))
    return starter


def failed(progress: WorkProgress) -> str:
    assert isinstance(progress, Failed)
    return progress.error


def test_the_job_is_valid_and_says_whose_it_is(starter: Starter) -> None:
    """X-10: named by run and attempt, labelled, once, and ended by the cluster when nobody is there to do it."""
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
    environment = {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}
    assert environment["LEVEL"] == "info"
    assert environment["PRICE"] == "$$(5)"
    assert environment["TRIGGERCTL_RUN_ID"] is None


def test_without_an_account_a_pod_gets_no_credentials(starter: Starter) -> None:
    """X-12: the namespace's default account is not handed to every task."""
    pod = kubernetes_job.job(starter.launch())["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False


def test_secrets_and_token_stand_in_the_secret_alone(starter: Starter) -> None:
    """X-12: who may look at Jobs and pods sees nothing of them; the Secret goes with its Job."""
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
    """X-03, O-04: with what the task says itself."""
    code = "import json, os; open(os.environ['TRIGGERCTL_OUTPUT'], 'w').write(json.dumps(dict(os.environ)))"
    progress = end(starter.start(code, env={"LEVEL": "info"}))
    assert isinstance(progress, Succeeded)
    assert progress.output["TRIGGERCTL_TOKEN"] == "t0ken"
    assert progress.output["TRACEPARENT"] == "00-a-b-01"
    assert progress.output["LEVEL"] == "info"


def test_nothing_is_left_in_the_cluster(starter: Starter) -> None:
    """X-12, X-10: when the end is known here, Job and Secret go; a cluster is no archive."""
    assert end(starter.start()) == Succeeded({})
    eventually(lambda: not starter.cluster.jobs)
    assert not starter.cluster.secrets


def test_work_that_is_forgotten_is_ended(starter: Starter) -> None:
    """X-10: forgetting leaves nothing running."""
    starter.waiting().forget()
    eventually(lambda: not starter.cluster.jobs)
    assert not (starter.folder / "attempt").exists()


def test_a_log_can_be_followed_and_is_not_doubled_by_an_adopter(starter: Starter) -> None:
    """X-17: two who watch the same Job in turn read one log."""
    starter.waiting()
    adopted = plugins.launcher("kubernetes").adopt(starter.folder / "attempt")
    assert adopted is not None
    (starter.folder / "go").touch()
    assert end(adopted) == Succeeded({})
    assert adopted.log.read(0, 99) == b"up\n"


def test_an_adopter_fills_no_room_that_was_given_back(starter: Starter) -> None:
    """X-17: a pod's log is read from its beginning, and of what was dropped nothing is written again."""
    code = f"print('0' * {3 * 2**20})\n{UNTIL}"
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


def test_a_kill_between_job_and_secret_is_made_good(starter: Starter) -> None:
    """Invariant 5: who adopts the attempt finds the Job by its name, and makes what is missing."""
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


def test_what_an_earlier_start_left_is_waited_for(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-10: an attempt that was handed back begins anew when its Job is gone, under the same name."""
    monkeypatch.setattr("reconcile.launchers.shared.remote_job.PAUSES", (0.05,) * 10_000)
    cluster = starter.cluster
    old = starter.launch(UNTIL, str(starter.folder / "go"))
    job = cluster.create_job(kubernetes_job.job(old))
    cluster.create_secret(kubernetes_job.secret(old, job["metadata"]["uid"]))
    job["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    work = starter.start("print('anew')")
    eventually(lambda: cluster.calls.count(Call("POST", JOBS)) > 1)
    assert work.poll() == Running(elsewhere=True)
    (starter.folder / "go").touch()
    assert end(work) == Succeeded({})
    assert work.log.read(0, 99) == b"anew\n"


def theirs(starter: Starter) -> dict[str, Any]:
    """A Job of another installation under the attempt's name, with its Secret, at work."""
    launch = replace(starter.launch(UNTIL, str(starter.folder / "go")), installation=THEIRS)
    job = starter.cluster.create_job(kubernetes_job.job(launch))
    starter.cluster.create_secret(kubernetes_job.secret(launch, job["metadata"]["uid"]))
    return job


def is_at_work(starter: Starter) -> bool:
    deleted = [call for call in starter.cluster.calls if call.method == "DELETE"]
    return not deleted and starter.cluster.pods[NAME].exit_code is None and f"runs/{NAME}" in starter.cluster.secrets


def test_a_job_of_another_installation_is_neither_adopted_nor_ended(starter: Starter) -> None:
    """X-10: a copy of the database meets the original's Job under the name of the run that both have."""
    theirs(starter)
    work = starter.start()
    error = failed(end(work))
    assert error.startswith(f"the Job {NAME} in runs is of another installation, {THEIRS}, and this one is {OURS}")
    assert error.endswith("fire anew instead")
    work.forget()
    assert is_at_work(starter)


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_job_that_has_become_anothers_fails_its_attempt(starter: Starter, is_cancelled: bool) -> None:
    """X-10: also one that was submitted, looked for by its name, and to be ended."""
    work = starter.waiting()
    with starter.cluster.lock:
        starter.cluster.remove(NAME)
        starter.cluster.calls.clear()
        theirs(starter)
    if is_cancelled:
        work.cancel(force=True)
    assert "is of another installation" in failed(end(work))
    assert is_at_work(starter)


def test_a_job_of_a_release_that_did_not_say_whose_it_was_is_adopted(starter: Starter) -> None:
    """R-19, X-10: in the middle of a rolling upgrade."""
    launch = replace(starter.launch(UNTIL, str(starter.folder / "go")), installation="")
    job = starter.cluster.create_job(kubernetes_job.job(launch))
    assert kubernetes_job.OWNER not in job["metadata"]["labels"]
    starter.cluster.create_secret(kubernetes_job.secret(launch, job["metadata"]["uid"]))
    work = starter.start()
    (starter.folder / "go").touch()
    assert end(work) == Succeeded({})
    eventually(lambda: not starter.cluster.jobs)
    assert starter.cluster.created == 1


def test_a_secret_of_an_earlier_job_is_replaced(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-12: the collector of garbage comes when it comes."""
    monkeypatch.setattr("reconcile.launchers.shared.remote_job.PAUSES", (0.05,))
    launch = starter.launch()
    starter.cluster.secrets[f"runs/{NAME}"] = kubernetes_job.secret(launch, "another")
    assert end(starter.start()) == Succeeded({})
    assert Call("DELETE", f"{SECRETS}/{NAME}") in starter.cluster.calls


def test_a_refusal_is_told_in_the_clusters_words(starter: Starter) -> None:
    """X-10: no right, no namespace, no quota: at once, without another try."""
    starter.cluster.refuse = [Status(403, "cannot create resource jobs in the namespace runs")]
    error = failed(end(starter.start()))
    assert error == "the cluster answered 403 Forbidden: cannot create resource jobs in the namespace runs"
    assert starter.cluster.calls.count(Call("POST", JOBS)) == 1


def test_a_job_without_its_secret_does_not_stay(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-12: refused halfway, the attempt fails and its Job goes."""
    cluster = starter.cluster

    def refused(body: Any, namespace: str) -> Any:
        raise Status(403, "no Secrets for you")

    with monkeypatch.context() as patched:
        patched.setattr(cluster, "create_secret", refused)
        assert "no Secrets for you" in failed(end(starter.start()))
    eventually(lambda: not cluster.jobs)


def test_a_cluster_that_is_away_does_not_fail_its_work(starter: Starter) -> None:
    """X-10: what runs there is waited for until its timeout."""
    work = starter.waiting()
    starter.cluster.refuse = [Status(503, "upgrading"), Status(401, "Unauthorized"), Status(500, "etcd")]
    starter.cluster.break_off = [None]
    eventually(lambda: not starter.cluster.refuse)
    assert work.poll() == Running(elsewhere=True)
    (starter.folder / "go").touch()
    assert end(work) == Succeeded({})


def test_an_answer_of_something_in_between_does_not_fail_its_work(
    starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X-10: a proxy that answers what no cluster would, be it with success."""
    work, cluster = starter.waiting(), starter.cluster
    odd: list[Any] = [None, [], {"items": None}]
    real = cluster.pods_of
    monkeypatch.setattr(cluster, "pods_of", lambda job: odd.pop() if odd else real(job))
    cluster.break_off = [None]
    eventually(lambda: not odd)
    (starter.folder / "go").touch()
    assert end(work) == Succeeded({})


def test_an_end_that_nobody_confirms_is_taken_for_one(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-10, X-05: a timeout holds although the cluster is away; the error says that it was not seen to end."""
    monkeypatch.setattr(remote_job, "SECONDS_TO_CONFIRM", 0.1)
    work = starter.waiting()
    starter.cluster.refuse = [Status(503, "upgrading")] * 100_000
    starter.cluster.break_off = [None]
    known = starter.looks() + 3  # the first may have come before it was refused, the second is known at the third
    eventually(lambda: starter.looks() >= known)

    def forced() -> bool:
        """As a worker does in each of its passes."""
        work.cancel(force=True)
        return not isinstance(work.poll(), Running)

    eventually(forced)
    assert work.poll() == Failed("was given up: the cluster answered 503 Service Unavailable: upgrading")
    starter.cluster.refuse = []


def test_an_image_that_cannot_be_pulled_is_told_at_the_timeout(starter: Starter) -> None:
    """X-10: a timeout that says why nothing ran."""
    starter.cluster.never_pulls = True
    work = starter.start()
    eventually(lambda: starter.looks() > 1)
    work.cancel()
    assert end(work) == Failed(f"{kubernetes_pod.GONE}: ImagePullBackOff: no such image")


def test_a_job_that_somebody_deletes_is_lost(starter: Starter) -> None:
    """X-10: nobody asked for it, so another attempt follows."""
    work = starter.waiting()
    with starter.cluster.lock:
        starter.cluster.remove(NAME)
    assert end(work) == Lost(kubernetes_pod.GONE)


def test_a_job_is_watched(watched: Starter) -> None:
    """X-10: that its pod has begun, and that it ended, is heard of; nobody has to look."""
    work = watched.waiting()
    (watched.folder / "go").touch()
    assert end(work) == Succeeded({})


def test_a_deletion_is_heard_of(watched: Starter) -> None:
    """X-10: whoever does it."""
    work = watched.waiting()
    with watched.cluster.lock:
        watched.cluster.remove(NAME)
    assert end(work) == Lost(kubernetes_pod.GONE)


def test_a_namespace_is_watched_once(watched: Starter) -> None:
    """X-10: however many attempts there are, one stream tells of them all."""
    for number in (3, 4, 5):
        assert end(watched.start_another(number)) == Succeeded({})
    assert watched.cluster.calls.count(Call("WATCH", JOBS)) == 1


@pytest.mark.parametrize("broken", [None, Status(410, "too old resource version"), Status(500, "etcd")], ids=str)
def test_a_watch_that_breaks_off_begins_anew(
    watched: Starter, broken: Status | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X-10: a timeout, versions that are no longer kept, an upgrade: with all Jobs as they are then."""
    monkeypatch.setattr(kubernetes_cluster, "WATCH_PAUSES", (0.01, 0.01))
    work = watched.waiting()
    cluster = watched.cluster
    cluster.refuse_watches = [Status(503, "upgrading"), Status(503, "upgrading")]
    cluster.break_off = [broken]
    eventually(lambda: cluster.calls.count(Call("WATCH", JOBS)) > 3)
    (watched.folder / "go").touch()
    assert end(work) == Succeeded({})


def test_who_may_not_watch_looks(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-10: with the rights of an earlier release, or while the cluster refuses it."""
    monkeypatch.setattr(remote_job, "SUBSCRIBED_POLL", 600.0)
    monkeypatch.setattr(kubernetes_cluster, "WATCH_PAUSES", (600.0, 600.0))
    starter.cluster.refuse_watches = [Status(403, "cannot watch resource jobs")]
    work = starter.waiting()
    assert not starter.cluster.refuse_watches
    (starter.folder / "go").touch()
    assert end(work) == Succeeded({})


def test_what_a_watch_fails_to_tell_is_seen_all_the_same(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-10: a connection can be dead without anybody knowing."""
    for name, seconds in zip(LOOKS, (600.0, 600.0, 0.01), strict=True):
        monkeypatch.setattr(remote_job, name, seconds)
    work = starter.waiting()
    starter.cluster.is_mute = True
    (starter.folder / "go").touch()
    assert end(work) == Succeeded({})


@pytest.mark.parametrize("away", ["the watch", "the answer"])
def test_who_is_told_no_more_looks(starter: Starter, monkeypatch: pytest.MonkeyPatch, away: str) -> None:
    """X-10: the stream broke off and does not come again, or what it tells of cannot be asked for just then."""
    for name, seconds in zip(LOOKS, (0.01, 0.01, 600.0), strict=True):
        monkeypatch.setattr(remote_job, name, seconds)
    monkeypatch.setattr(kubernetes_cluster, "WATCH_PAUSES", (600.0, 600.0))
    work, cluster = starter.waiting(), starter.cluster
    starter.is_left_alone()
    if away == "the watch":
        cluster.break_off = [None]
        eventually(lambda: not cluster.watchers)
    else:
        cluster.refuse = [Status(503, "upgrading")] * 2
    (starter.folder / "go").touch()
    assert end(work) == Succeeded({})


def test_what_is_watched_is_not_looked_at_all_the_time(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-10: while another attempt begins and ends nobody asks for the first."""
    for name, seconds in zip(LOOKS, (0.001, 0.001, 600.0), strict=True):
        monkeypatch.setattr(remote_job, name, seconds)
    starter.waiting()
    starter.is_left_alone()


def test_nobody_watches_when_nothing_runs(watched: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-10: the stream is not begun anew."""
    monkeypatch.setattr(kubernetes_cluster, "WATCH_PAUSES", (0.01, 0.01))
    assert end(watched.start(namespace="quiet")) == Succeeded({})
    watched.cluster.break_off = [None]
    eventually(lambda: "watch quiet" not in [one.name for one in threading.enumerate()])


def test_a_cluster_that_is_nowhere_fails_the_attempt(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-10: with the way out."""
    monkeypatch.setenv("KUBECONFIG", str(starter.folder / "nothing"))
    assert "set KUBECONFIG, or run in one" in failed(end(starter.start()))


def test_in_a_pod_it_is_the_cluster_around_it(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-10: unless `KUBECONFIG` names another; without its account's token there is nobody to be."""
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr("kubernetes.config.incluster_config.SERVICE_TOKEN_FILENAME", str(starter.folder / "nothing"))
    assert failed(end(starter.start())).startswith("knows no cluster: Service token file does not exist")


def test_a_missing_extra_is_told_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """X-10: when the task is registered, and when it is launched."""
    monkeypatch.setattr(blocks, "find_spec", lambda name: None)
    [fault] = block_faults("kubernetes", {"image": "a"})
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
def test_states_are_mapped(condition: Any, terminated: Any, progress: Any) -> None:
    """X-10: success, failure, and what a cluster itself puts an end to."""
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
def test_a_pod_that_is_taken_away_says_why(status: Any) -> None:
    """X-10: that it was killed is only how; the last line of its log says nothing of it."""
    job = {"status": {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}}
    state = {"terminated": {"exitCode": 137, "reason": "Error"}}
    pod = {"status": {"containerStatuses": [{"name": "task", "state": state}], **status}}
    assert kubernetes_pod.progress(job, pod, "the last line") == Failed("Evicted: low on memory")


def test_a_pod_that_finds_no_node_says_so() -> None:
    """X-10: for the error of a timeout."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node has 1Ti"}
    assert kubernetes_pod.waiting_reason({"status": {"conditions": [condition]}}) == "Unschedulable: no node has 1Ti"
    creating = {"name": "task", "state": {"waiting": {"reason": "ContainerCreating"}}}
    assert kubernetes_pod.waiting_reason({"status": {"containerStatuses": [creating]}}) == ""


def test_the_name_is_another_for_another_attempt(starter: Starter) -> None:
    """X-10: one attempt, one Job."""
    assert kubernetes_job.name(starter.launch()) == NAME
    assert kubernetes_job.name(replace(starter.launch(), attempt=3)) != NAME


def test_a_cluster_that_lets_nobody_in_is_told_of(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """O-05: by `doctor`, in the cluster's words; it is asked where Jobs would start."""
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

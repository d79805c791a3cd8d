"""Behaviour of the launcher `http` alone: what is sent, how answers are judged, and that nothing is sent twice."""

import ipaddress
import json
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from reconcile import plugins
from reconcile.launchers.shared import http_exchange
from reconcile.plugins import Failed, Launch, Lost, Running, Succeeded, Work, WorkProgress
from tests.blocks import block_of, written_block
from tests.contract.service import Service
from tests.contract.test_launchers import CONTROLLER, end
from tests.waiting import eventually

ACCEPTED = Running(elsewhere=True)
VALID = (datetime.now(UTC) - timedelta(days=1), datetime.now(UTC) + timedelta(days=1))


class Sender:
    """Start attempts on one service and forget them at the end."""

    def __init__(self, folder: Path, service: Service) -> None:
        self.folder, self.service = folder, service
        self.started: list[Work] = []

    def launch(self, path: str = "say", values: Any = None, environment: Any = None, **block: Any) -> Launch:
        read = block_of("http", {"url": f"{self.service.url}/{path}", **block})
        return Launch("r1", 2, self.folder / "attempt", self.folder, read, {"input": values or {}}, environment or {})

    def start(self, path: str = "say", values: Any = None, environment: Any = None, **block: Any) -> Work:
        self.started.append(plugins.launcher("http").start(self.launch(path, values, environment, **block)))
        return self.started[-1]

    def outcome_of(self, **values: Any) -> WorkProgress:
        """Return the outcome of a scripted answer."""
        return end(self.start("say", values))

    def start_controller(self, path: str, values: Any) -> "subprocess.Popen[bytes]":
        """Start an attempt in a controller process of its own, which the caller kills."""
        launch = self.launch(path, values)
        arguments = [
            "http",
            launch.run_id,
            str(launch.folder),
            str(launch.root),
            json.dumps(written_block(launch.block)),
            json.dumps(launch.input),
        ]
        root = Path(plugins.__file__).parents[1]
        controller = subprocess.Popen([sys.executable, "-c", CONTROLLER, *arguments], stdout=subprocess.PIPE, cwd=root)
        assert controller.stdout
        assert controller.stdout.readline() == b"started\n"
        return controller

    def adopt(self) -> Work:
        work = plugins.launcher("http").adopt(self.folder / "attempt")
        assert work is not None
        self.started.append(work)
        return work


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as service:
        yield service


@pytest.fixture
def sender(service: Service, tmp_path: Path) -> Iterator[Sender]:
    sender = Sender(tmp_path, service)
    yield sender
    for work in sender.started:
        work.forget()


def log(work: Work) -> bytes:
    return work.log.read(0, work.log.size())


def test_the_document_is_the_body_of_the_request(sender: Sender) -> None:
    """X-10: headers carry the attempt's name, the callback addresses, the trace, and the task's own headers."""
    environment = {"TRIGGERCTL_URL": "http://here:8080", "TRACEPARENT": "00-a-b-01", "TRIGGERCTL_TOKEN": "tcr_1"}
    work = sender.start("echo", {"text": "Zürich"}, environment, method="PUT", headers={"X-Key": "k", "Accept": "a/b"})
    assert end(work) == Succeeded({"seen": {"input": {"text": "Zürich"}}})
    [request] = sender.service.seen
    assert request.method == "PUT"
    assert json.loads(request.body) == {"input": {"text": "Zürich"}}
    sent = {
        "content-type": "application/json",
        "idempotency-key": "r1/2",
        "traceparent": "00-a-b-01",
        "triggerctl-token": "tcr_1",
        "triggerctl-callback": "http://here:8080/api/v1/runs/r1/complete",
        "triggerctl-heartbeat": "http://here:8080/api/v1/runs/r1/heartbeat",
        "x-key": "k",
        "accept": "a/b",
    }
    assert {name: request.headers[name] for name in sent} == sent


def test_no_credentials_of_the_controller_are_sent(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-12: nothing from its environment or its user's files, and no header for an address or trace that does not
    exist."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    (sender.folder / ".netrc").write_text("machine 127.0.0.1 login ann password secret\n")
    monkeypatch.setenv("NETRC", str(sender.folder / ".netrc"))
    end(sender.start("echo"))
    [request] = sender.service.seen
    absent = {"authorization", "cookie", "traceparent", "triggerctl-callback", "triggerctl-heartbeat"}
    assert absent & request.headers.keys() == set()


@pytest.mark.parametrize(
    ("answer", "progress"),
    [
        ({"status": 201, "body": '{"a": 1}'}, Succeeded({"a": 1})),
        ({"status": 204}, Succeeded({})),
        ({"body": " \n"}, Succeeded({})),
        ({"body": "<html>"}, Failed("output is not JSON: Expecting value: line 1 column 1 (char 0)")),
        ({"status": 404, "body": "no such\r\n report \0"}, Failed("answered 404 Not Found: no such report ")),
        ({"status": 503}, Failed("answered 503 Service Unavailable")),
        ({"status": 302, "headers": {"Location": "/echo"}}, Failed("answered 302 Found")),
        ({"status": 500, "body": "x" * 9000}, Failed("answered 500 Internal Server Error: " + "x" * 300)),
        ({"status": 422, "body": '{"cost": 2}'}, Failed('answered 422 Unprocessable Entity: {"cost": 2}', {"cost": 2})),
    ],
    ids=["created", "no content", "blank", "page", "not found", "unavailable", "elsewhere", "long", "with output"],
)
def test_an_answer_is_judged_by_its_status(sender: Sender, answer: Any, progress: WorkProgress) -> None:
    """X-10, X-06: redirects are not followed, and a failure may carry an output."""
    assert sender.outcome_of(**answer) == progress
    assert len(sender.service.seen) == 1


def test_the_log_holds_status_line_and_body(sender: Sender) -> None:
    """X-17: unchanged, up to the size of an output."""
    work = sender.start("say", {"status": 400, "body": "Zürich is\nclosed"})
    end(work)
    assert log(work) == "HTTP/1.1 400 Bad Request\nZürich is\nclosed\n".encode()
    assert work.log.read(9, 3) == b"400"


def test_a_body_larger_than_an_output_is_not_read_to_its_end(sender: Sender) -> None:
    """X-10: the limit is 1 MiB."""
    work = sender.start("say", {"body": '{"a": "' + "x" * 2**21, "cut": 1})
    assert end(work) == Failed("output is larger than 1048576 bytes")
    assert work.log.size() < 2**20 + 2**17


def test_an_accepted_attempt_lives_until_its_callback(sender: Sender) -> None:
    """X-10: 202 promises a callback; until then the attempt can be cancelled."""
    work = sender.start("say", {"status": 202, "body": "in the queue"})
    eventually(lambda: work.poll() == ACCEPTED)
    assert log(work) == b"HTTP/1.1 202 Accepted\nin the queue\n"
    work.cancel()
    assert work.poll() == Failed(http_exchange.NOT_CALLED_BACK)


@pytest.mark.parametrize(
    ("expects", "status", "progress"),
    [
        ("callback", 200, ACCEPTED),
        ("callback", 202, ACCEPTED),
        ("callback", 500, Failed("answered 500 Internal Server Error")),
        ("answer", 200, Succeeded({})),
        ("answer", 202, Failed("answered 202, which promises a callback, and the task expects an answer")),
    ],
)
def test_a_task_may_require_an_answer_or_a_callback(
    sender: Sender, expects: str, status: int, progress: WorkProgress
) -> None:
    """X-10: for services that accept with 200, and for services that must not only accept."""
    work = sender.start("say", {"status": status}, expects=expects)
    assert eventually(lambda: seen if (seen := work.poll()) != Running() else None) == progress


def test_a_refused_connection_is_tried_again_within_the_attempt(
    sender: Sender, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X-10: nothing was sent, so the service is asked exactly once."""
    monkeypatch.setattr(http_exchange, "PAUSES", (0.05,) * 10_000)
    work = sender.start("nothing", url=f"http://127.0.0.1:{port}/nothing")
    eventually(lambda: b"cannot be reached" in log(work))
    assert work.poll() == Running()
    with Service(port) as service:
        assert end(work) == Succeeded({})
        assert service.keys == ["r1/2"]


def test_an_unreachable_service_fails_the_attempt(sender: Sender, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-07: the run's own retries follow."""
    monkeypatch.setattr(http_exchange, "PAUSES", (0.01, 0.01))
    url = f"http://127.0.0.1:{port}/"
    work = sender.start(url=url)
    failed = end(work)
    assert isinstance(failed, Failed)
    assert failed.error.startswith(f"{url} cannot be reached: ")
    assert log(work).count(b"cannot be reached") == 3


def test_an_invalid_host_name_fails_the_attempt(sender: Sender) -> None:
    """X-10: whatever the resolver answers."""
    failed = end(sender.start(url=f"http://{'a' * 64}.example/"))
    assert isinstance(failed, Failed)
    assert "cannot be reached" in failed.error


@pytest.mark.parametrize(("path", "values"), [("silence", {}), ("say", {"body": "{", "cut": 9})])
def test_a_request_that_may_have_been_processed_is_not_repeated(sender: Sender, path: str, values: Any) -> None:
    """X-07, invariant 5: once a byte was sent, only another attempt may ask again, under another key."""
    failed = end(sender.start(path, values))
    assert isinstance(failed, Failed)
    assert "no whole answer, and whether the service carried it out is not known" in failed.error
    assert sender.service.keys == ["r1/2"]


def test_a_cancelled_request_is_closed(sender: Sender) -> None:
    """X-10: the service can notice it, and nothing goes on waiting here."""
    work = sender.start("sleep", {"ready": str(sender.folder / "ready")})
    eventually((sender.folder / "ready").exists)
    work.cancel()
    assert work.poll() == Failed(http_exchange.ABANDONED)
    eventually(sender.service.hung_up.is_set)
    work.forget()
    assert not (sender.folder / "attempt").exists()


def test_a_request_cancelled_before_it_connects_is_never_sent(
    sender: Sender, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X-10: it stays unsent although the service becomes reachable."""
    monkeypatch.setattr(http_exchange, "PAUSES", (600.0,))
    work = sender.start("nothing", url=f"http://127.0.0.1:{port}/nothing")
    eventually(lambda: b"cannot be reached" in log(work))
    with Service(port) as service:
        work.forget()
        assert work.poll() == Failed(http_exchange.ABANDONED)
        assert service.seen == []


@pytest.fixture
def https_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """Service with a certificate that the controller trusts."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "service")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), *VALID)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = builder.add_extension(address, critical=False).sign(key, hashes.SHA256())
    form = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))
    (tmp_path / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    with Service(secured=context) as service:
        yield service


def test_a_cancelled_https_request_is_closed_too(https_service: Service, tmp_path: Path) -> None:
    """X-10: it does not wait for an answer either."""
    sender = Sender(tmp_path, https_service)
    assert end(sender.start("say", {"body": '{"a": 1}'})) == Succeeded({"a": 1})
    sender.started[0].forget()
    work = sender.start("sleep", {"ready": str(tmp_path / "ready")})
    eventually((tmp_path / "ready").exists)
    work.forget()
    eventually(https_service.hung_up.is_set)
    assert work.poll() == Failed(http_exchange.ABANDONED)


def test_a_service_with_an_untrusted_certificate_receives_nothing(https_service: Service, sender: Sender) -> None:
    """X-12: the attempt ends before a byte of the document is sent."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SSL_CERT_FILE")
        patch.setattr(http_exchange, "PAUSES", (0.01,))
        failed = end(sender.start(url=f"{https_service.url}/say"))
    assert isinstance(failed, Failed)
    assert "CERTIFICATE_VERIFY_FAILED" in failed.error
    assert https_service.seen == []


def test_a_request_in_progress_is_lost_with_its_controller(sender: Sender) -> None:
    """X-10, invariant 5: its outcome is unknown, and it is not repeated in this attempt."""
    ready = sender.folder / "ready"
    with sender.start_controller("sleep", {"ready": str(ready)}) as controller:
        eventually(ready.exists)
        assert sender.adopt().poll() == Running()
        controller.send_signal(signal.SIGKILL)
    work = sender.adopt()
    assert work.poll() == Lost(http_exchange.LOST)
    assert sender.start("sleep", {"ready": str(ready)}).poll() == Lost(http_exchange.LOST)
    assert sender.service.keys == ["r1/1"]


def test_accepted_work_is_adopted_after_a_kill(sender: Sender) -> None:
    """X-10, invariant 5: the next controller goes on waiting and sends nothing."""
    with sender.start_controller("say", {"status": 202}) as controller:
        eventually((sender.folder / "attempt" / "accepted").exists)
        controller.send_signal(signal.SIGKILL)
    work = sender.adopt()
    assert work.poll() == ACCEPTED
    assert log(work) == b"HTTP/1.1 202 Accepted\n"
    assert sender.start("say").poll() == ACCEPTED
    work.cancel()
    assert sender.adopt().poll() == work.poll() == Failed(http_exchange.NOT_CALLED_BACK)
    assert sender.service.keys == ["r1/1"]


def test_an_answer_received_before_a_kill_is_kept(sender: Sender) -> None:
    """X-10: the next controller settles it from the disk."""
    with sender.start_controller("say", {"body": '{"a": 1}'}) as controller:
        eventually((sender.folder / "attempt" / "end").exists)
        controller.send_signal(signal.SIGKILL)
    assert sender.adopt().poll() == Succeeded({"a": 1})

"""What is true of `http` alone: what is sent, how answers are judged, and that nothing is sent twice."""

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
from reconcile.protocols import Failed, Launch, Lost, Running, Succeeded, Work, WorkProgress
from tests.blocks import block_of, written_block
from tests.contract.service import Service
from tests.contract.test_launchers import CONTROLLER, end
from tests.waiting import eventually

ACCEPTED = Running(elsewhere=True)
VALID = (datetime.now(UTC) - timedelta(days=1), datetime.now(UTC) + timedelta(days=1))


class Sender:
    """Starts attempts against one service, and abandons them in the end."""

    def __init__(self, folder: Path, service: Service) -> None:
        self.folder, self.service = folder, service
        self.started: list[Work] = []

    def launch(self, path: str = "say", values: Any = None, environment: Any = None, **block: Any) -> Launch:
        read = block_of("http", {"url": f"{self.service.url}/{path}", **block})
        return Launch("r1", 2, self.folder / "attempt", self.folder, read, {"input": values or {}}, environment or {})

    def start(self, path: str = "say", values: Any = None, environment: Any = None, **block: Any) -> Work:
        self.started.append(plugins.launcher("http").start(self.launch(path, values, environment, **block)))
        return self.started[-1]

    def said(self, **values: Any) -> WorkProgress:
        """What becomes of an answer that is scripted."""
        return end(self.start("say", values))

    def killed_controller(self, path: str, values: Any) -> "subprocess.Popen[bytes]":
        """A controller of its own process that has started an attempt; it is killed on leaving it."""
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


def test_the_document_is_the_body_and_the_headers_say_the_rest(sender: Sender) -> None:
    """X-10: the attempt's name, where to call back, the trace; a task's own headers beside them."""
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


def test_what_there_is_not_is_not_sent(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-12: no address, no trace, and nothing from the controller's environment or its user's files."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    (sender.folder / ".netrc").write_text("machine 127.0.0.1 login ann password secret\n")
    monkeypatch.setenv("NETRC", str(sender.folder / ".netrc"))
    end(sender.start("echo"))
    [request] = sender.service.seen
    absent = {"authorization", "cookie", "traceparent", "triggerctl-callback", "triggerctl-heartbeat"}
    assert absent & request.headers.keys() == set()


@pytest.mark.parametrize(
    ("said", "progress"),
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
def test_an_answer_is_judged_by_its_status(sender: Sender, said: Any, progress: WorkProgress) -> None:
    """X-10, X-06: success and failure are mapped, nothing is followed; a failure may carry an output."""
    assert sender.said(**said) == progress
    assert len(sender.service.seen) == 1


def test_the_log_holds_status_line_and_body(sender: Sender) -> None:
    """X-17: as it came, up to what an output may have."""
    work = sender.start("say", {"status": 400, "body": "Zürich is\nclosed"})
    end(work)
    assert log(work) == "HTTP/1.1 400 Bad Request\nZürich is\nclosed\n".encode()
    assert work.log.read(9, 3) == b"400"


def test_an_endless_body_is_not_read_to_its_end(sender: Sender) -> None:
    """X-10: more than 1 MiB is no output; the rest is not waited for."""
    work = sender.start("say", {"body": '{"a": "' + "x" * 2**21, "cut": 1})
    assert end(work) == Failed("output is larger than 1048576 bytes")
    assert work.log.size() < 2**20 + 2**17


def test_accepted_work_goes_on_elsewhere(sender: Sender) -> None:
    """X-10: 202 promises a callback; until then the attempt lives, and it can be given up."""
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
def test_a_task_may_say_what_it_expects(sender: Sender, expects: str, status: int, progress: WorkProgress) -> None:
    """X-10: for services that accept with 200, and for those that must not only accept."""
    work = sender.start("say", {"status": status}, expects=expects)
    assert eventually(lambda: found if (found := work.poll()) != Running() else None) == progress


def test_a_service_that_comes_late_is_asked_once(sender: Sender, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-10: a refused connection cannot have done anything, so it is tried again within the attempt."""
    monkeypatch.setattr(http_exchange, "PAUSES", (0.05,) * 10_000)
    work = sender.start("nothing", url=f"http://127.0.0.1:{port}/nothing")
    eventually(lambda: b"cannot be reached" in log(work))
    assert work.poll() == Running()
    with Service(port) as late:
        assert end(work) == Succeeded({})
        assert late.keys == ["r1/2"]


def test_a_service_that_is_not_there_fails_the_attempt(
    sender: Sender, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X-07: what is down for longer is for the run's own retries."""
    monkeypatch.setattr(http_exchange, "PAUSES", (0.01, 0.01))
    url = f"http://127.0.0.1:{port}/"
    work = sender.start(url=url)
    failed = end(work)
    assert isinstance(failed, Failed)
    assert failed.error.startswith(f"{url} cannot be reached: ")
    assert log(work).count(b"cannot be reached") == 3


def test_a_name_that_can_be_none_fails_the_attempt(sender: Sender) -> None:
    """X-10: whatever the resolver says of it."""
    failed = end(sender.start(url=f"http://{'a' * 64}.example/"))
    assert isinstance(failed, Failed)
    assert "cannot be reached" in failed.error


@pytest.mark.parametrize(("path", "values"), [("silence", {}), ("say", {"body": "{", "cut": 9})])
def test_what_may_have_been_carried_out_is_not_sent_again(sender: Sender, path: str, values: Any) -> None:
    """X-07, invariant 5: after the first byte only another attempt may ask again, under another key."""
    failed = end(sender.start(path, values))
    assert isinstance(failed, Failed)
    assert "no whole answer, and whether the service carried it out is not known" in failed.error
    assert sender.service.keys == ["r1/2"]


def test_an_abandoned_request_is_hung_up(sender: Sender) -> None:
    """X-10: a service that looks notices; nothing goes on waiting here."""
    work = sender.start("sleep", {"ready": str(sender.folder / "ready")})
    eventually((sender.folder / "ready").exists)
    work.cancel()
    assert work.poll() == Failed(http_exchange.ABANDONED)
    eventually(sender.service.hung_up.is_set)
    work.forget()
    assert not (sender.folder / "attempt").exists()


def test_a_request_that_never_began_is_not_begun_after_the_end(
    sender: Sender, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X-10: abandoned between two tries to connect, it stays unsent."""
    monkeypatch.setattr(http_exchange, "PAUSES", (600.0,))
    work = sender.start("nothing", url=f"http://127.0.0.1:{port}/nothing")
    eventually(lambda: b"cannot be reached" in log(work))
    with Service(port) as late:
        work.forget()
        assert work.poll() == Failed(http_exchange.ABANDONED)
        assert late.seen == []


@pytest.fixture
def secured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A service with a certificate that the controller is told to trust."""
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
    http_exchange.trusted_certificates.cache_clear()
    with Service(secured=context) as service:
        yield service
    http_exchange.trusted_certificates.cache_clear()


def test_a_secured_service_is_asked_and_hung_up_alike(secured: Service, tmp_path: Path) -> None:
    """X-10: over https, too, an abandoned request waits for nothing."""
    sender = Sender(tmp_path, secured)
    assert end(sender.start("say", {"body": '{"a": 1}'})) == Succeeded({"a": 1})
    sender.started[0].forget()
    work = sender.start("sleep", {"ready": str(tmp_path / "ready")})
    eventually((tmp_path / "ready").exists)
    work.forget()
    eventually(secured.hung_up.is_set)
    assert work.poll() == Failed(http_exchange.ABANDONED)


def test_a_stranger_in_place_of_the_service_is_told_nothing(secured: Service, sender: Sender) -> None:
    """X-12: a certificate that nobody vouches for ends the attempt before a byte of the document is sent."""
    http_exchange.trusted_certificates.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SSL_CERT_FILE")
        patch.setattr(http_exchange, "PAUSES", (0.01,))
        failed = end(sender.start(url=f"{secured.url}/say"))
    assert isinstance(failed, Failed)
    assert "CERTIFICATE_VERIFY_FAILED" in failed.error
    assert secured.seen == []


def test_a_request_under_way_is_lost_with_its_controller(sender: Sender) -> None:
    """X-10, invariant 5: nobody knows what became of it, and it is not sent again under this attempt."""
    ready = sender.folder / "ready"
    with sender.killed_controller("sleep", {"ready": str(ready)}) as controller:
        eventually(ready.exists)
        assert sender.adopt().poll() == Running()
        controller.send_signal(signal.SIGKILL)
    work = sender.adopt()
    assert work.poll() == Lost(http_exchange.LOST)
    assert sender.start("sleep", {"ready": str(ready)}).poll() == Lost(http_exchange.LOST)
    assert sender.service.keys == ["r1/1"]


def test_accepted_work_is_found_again_after_the_controllers_death(sender: Sender) -> None:
    """X-10, invariant 5: the next controller goes on waiting, and asks nobody anew."""
    with sender.killed_controller("say", {"status": 202}) as controller:
        eventually((sender.folder / "attempt" / "accepted").exists)
        controller.send_signal(signal.SIGKILL)
    work = sender.adopt()
    assert work.poll() == ACCEPTED
    assert log(work) == b"HTTP/1.1 202 Accepted\n"
    assert sender.start("say").poll() == ACCEPTED
    work.cancel()
    assert sender.adopt().poll() == work.poll() == Failed(http_exchange.NOT_CALLED_BACK)
    assert sender.service.keys == ["r1/1"]


def test_an_answer_that_came_before_the_death_is_kept(sender: Sender) -> None:
    """X-10: it is on the disk, and the next controller settles it."""
    with sender.killed_controller("say", {"body": '{"a": 1}'}) as controller:
        eventually((sender.folder / "attempt" / "end").exists)
        controller.send_signal(signal.SIGKILL)
    assert sender.adopt().poll() == Succeeded({"a": 1})

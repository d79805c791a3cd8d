"""Celery worker and Redis on this machine; the Redis password must never be revealed."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Self

from tests.waiting import eventually

PASSWORD = "opensesame"
WORKER = """
import json, os, pathlib, signal, time
from celery import Celery

app = Celery("tasks", broker=os.environ["CELERY_BROKER_URL"], backend=os.environ["CELERY_RESULT_BACKEND"])
app.conf.task_track_started = True
app.conf.worker_hijack_root_logger = False

@app.task(name="echo")
def echo(document):
    return {"seen": document}

@app.task(name="nothing")
def nothing(document):
    pass

@app.task(name="traced", bind=True)
def traced(self, document):
    return {"traceparent": getattr(self.request, "traceparent", None)}

@app.task(name="fail")
def fail(document):
    raise RuntimeError("could not reach the moon", {"state": {"kept": 1}})

class Moon(Exception):
    def __init__(self, name, phase):
        super().__init__(f"{name} is {phase}")

@app.task(name="fail strangely")
def fail_strangely(document):
    raise Moon("luna", "new")

@app.task(name="sleep")
def sleep(document):
    pathlib.Path(document["input"]["ready"]).touch()
    while True:
        time.sleep(0.01)

@app.task(name="wait")
def wait(document):
    with open(document["input"]["runs"], "a") as file:
        file.write("run\\n")
    while not os.path.exists(document["input"]["go"]):
        time.sleep(0.002)
    return {"waited": True}

@app.task(name="say")
def say(document):
    return json.loads(document["input"]["text"])
"""


class Workers:
    """Redis and one Celery worker, running while the `with` block runs. `stop` and `begin` apply to the worker only."""

    url = ""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder, self._port = folder, port
        (folder / "worker.py").write_text(WORKER)
        self._redis: subprocess.Popen[bytes] | None = None
        self._worker: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        address = f"redis://:{PASSWORD}@127.0.0.1:{self._port}"
        return {"CELERY_BROKER_URL": f"{address}/0", "CELERY_RESULT_BACKEND": f"{address}/1"}

    def __enter__(self) -> Self:
        program = shutil.which("redis-server")
        assert program
        options = ["--port", str(self._port), "--bind", "127.0.0.1", "--requirepass", PASSWORD, "--save", ""]
        self._redis = subprocess.Popen([program, *options], cwd=self._folder, stdout=subprocess.DEVNULL)
        eventually(self._is_listening)
        self.begin()
        return self

    def __exit__(self, *arguments: object) -> None:
        self.stop()
        assert self._redis
        self._redis.kill()
        self._redis.wait()

    def begin(self) -> None:
        log = self._folder / "worker.log"
        log.write_text("")
        options = ["--concurrency", "3", "--without-gossip", "--without-mingle", "--loglevel", "info"]
        with log.open("ab") as file:
            self._worker = subprocess.Popen(
                [sys.executable, "-m", "celery", "--app", "worker", "worker", *options],
                cwd=self._folder,
                env={"PATH": os.environ["PATH"], "C_FORCE_ROOT": "1", **self.environment},
                stdout=file,
                stderr=file,
            )
        eventually(lambda: " ready." in log.read_text())

    def stop(self) -> None:
        assert self._worker
        self._worker.kill()
        self._worker.wait()

    def _is_listening(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

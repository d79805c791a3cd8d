"""How the installation is, over HTTP; and how much the schedules ask for."""

from sqlalchemy import text

from revisions.clock import HandClock
from revisions.store.database import Database
from tests.controller.asking import Api, task_manifest
from tests.world import World

R = "/triggers/acme/production/report"


def test_every_check_is_a_line_with_a_way_out(api: Api) -> None:
    """O-05: a list as every other; a warning is well enough."""
    answer = api.get("/doctor")
    assert answer.status_code == 200
    found = answer.json()
    assert (found["ok"], found["next_cursor"]) == (True, None)
    replicas = next(check for check in found["items"] if check["name"] == "replicas")
    assert (replicas["ok"], replicas["level"]) == (True, "warning")
    assert "triggerctl up" in replicas["hint"]
    assert {check["level"] for check in found["items"]} == {"ok", "warning"}


def test_a_schema_of_another_release_is_an_answer_not_an_error(api: Api, database: Database) -> None:
    """R-19, O-05: where every other route says 503, doctor says why."""
    with database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    answer = api.get("/doctor")
    assert (answer.status_code, answer.json()["ok"]) == (200, False)
    assert [check["name"] for check in answer.json()["items"]] == ["database", "pooler", "notices", "schema"]


def test_what_the_schedules_ask_for(api: Api) -> None:
    """L-18: the sum, what is allowed, and those that ask for most."""
    assert api.get("/demand").json() == {
        "at": "2026-03-02T08:00:00Z",
        "asked_rate": 0.0,
        "execution_qps": 10.0,
        "is_too_much": False,
        "most": [],
    }
    for number in range(8):
        api.create(f"{R}/t{number}", schedule={"every": "1s"})
    api.create(f"{R}/slow", schedule={"every": "10s"})
    api.create(f"{R}/resting", schedule={"every": "1s"}, active=False)
    found = api.get("/demand", limit=1).json()
    assert (round(found["asked_rate"], 6), found["is_too_much"]) == (8.1, True)
    assert found["most"] == [{"trigger": "acme/production/report/t0", "rate": 1.0}]
    assert len(api.get("/demand").json()["most"]) == 9
    assert api.get("/demand", limit=-1).status_code == 422
    assert api.get("/demand", since="x").status_code == 422


def test_quarantine_stands_in_the_status(api: Api, database: Database, clock: HandClock) -> None:
    """L-13: since when, until when, how often, and why; null for the others, for what rests, and as of a time."""
    api.put("/tasks/acme/production/report/v1", task_manifest())
    for name in ("good", "bad"):
        api.create(f"{R}/{name}", overlap="allow")
    with database.write() as connection:
        spoilt = "UPDATE triggers SET spec = replace(spec, '\"1m\"', '\"1 fortnight\"') WHERE name = 'bad'"
        connection.execute(text(spoilt))
    world = World(database, clock)
    for _ in range(2):
        world.advance(minutes=1)
        world.loop.resync()
    bad, good = api.get("/triggers").json()["items"]
    assert good["status"]["quarantined"] is None
    apart = bad["status"]["quarantined"]
    assert "fortnight" in apart.pop("error")
    assert apart == {"since": "2026-03-02T08:01:00Z", "until": "2026-03-02T08:03:00Z", "attempts": 2}
    assert api.get(f"{R}/bad").json()["status"]["quarantined"] is not None
    assert api.get(f"{R}/bad", as_of="2026-03-02T08:00:30Z").json()["status"]["quarantined"] is None
    assert len(api.post("/rebuild").json()["differences"]) == 1
    world.advance(minutes=1)
    world.loop.resync()
    assert api.get(f"{R}/bad").json()["status"]["quarantined"] is None
    assert world.runs("bad")

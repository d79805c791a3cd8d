"""Previews of next fires over HTTP."""

from typing import Any

from revisions.clock import HandClock
from revisions.store.database import Database
from tests.controller.asking import IS_NEW, NAME, Api, T, manifest
from tests.controller.conftest import Cli
from tests.world import World

NIGHTLY = {"cron": "30 2 * * *", "timezone": "Europe/Berlin"}


def full_manifest(**spec: object) -> dict[str, object]:
    names = {"project": "acme", "domain": "production", "task": "none", "name": "new"}
    return manifest(**spec) | {"apiVersion": "triggerctl/v1", "kind": "Trigger", "metadata": names}


def test_the_next_fires_of_a_trigger_and_a_skipped_gap(api: Api) -> None:
    """S-09: local and UTC times; one night has no 02:30."""
    api.create(schedule=NIGHTLY)
    assert api.get(f"{T}/next", n=2, after="2026-03-28T00:00:00Z").json() == {
        "fires": [
            {
                "id": "cron/2026-03-28T02:30:00/Europe/Berlin",
                "utc": "2026-03-28T01:30:00Z",
                "local": "2026-03-28T02:30:00+01:00",
            },
            {
                "id": "cron/2026-03-30T02:30:00/Europe/Berlin",
                "utc": "2026-03-30T00:30:00Z",
                "local": "2026-03-30T02:30:00+02:00",
            },
        ],
        "skipped": [{"local": "2026-03-29T02:30:00", "reason": "gap"}],
    }


def test_a_preview_begins_now(api: Api) -> None:
    """S-09: without `after` and `n` it has ten fires from the clock's now."""
    api.create()
    fires = api.get(f"{T}/next").json()["fires"]
    assert len(fires) == 10
    assert fires[0] == {
        "id": "every/2026-03-02T08:01:00Z",
        "utc": "2026-03-02T08:01:00Z",
        "local": "2026-03-02T08:01:00Z",
    }


def test_a_manifest_can_be_previewed_before_it_is_deployed(api: Api) -> None:
    """S-09: nothing is written, and the task need not exist yet; the second 02:30 of the fold is skipped."""
    answer = api.client.post("/api/v1/next?n=2&after=2026-10-24T12:00:00Z", json=full_manifest(schedule=NIGHTLY))
    assert answer.status_code == 200
    assert [fire["utc"] for fire in answer.json()["fires"]] == ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
    assert answer.json()["skipped"] == [{"local": "2026-10-25T02:30:00", "reason": "fold"}]
    assert api.get("/triggers").json()["items"] == []


def test_an_in_is_previewed_from_now(api: Api) -> None:
    """S-15: as a deploy would resolve it."""
    answer = api.post("/next", full_manifest(schedule={"in": "2h"}))
    assert [fire["utc"] for fire in answer.json()["fires"]] == ["2026-03-02T10:00:00Z"]


def test_a_preview_refuses_what_a_deploy_would(api: Api) -> None:
    """S-02: a schedule that never fires."""
    answer = api.post("/next", full_manifest(schedule={"cron": "0 0 30 2 *"}))
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert api.put(T, manifest(schedule={"cron": "0 0 30 2 *"}), IS_NEW).status_code == 422


MORNINGS = {"cron": "0 9 * * *", "timezone": "Europe/Berlin"}


def days(answer: dict[str, Any]) -> list[str]:
    return [fire["local"][:10] for fire in answer["fires"]]


def deploy_calendar(api: Api, *dates: str) -> None:
    calendar = {"spec": {"owner": "ann", "dates": list(dates)}}
    assert api.put("/calendars/acme/holidays", calendar, IS_NEW).status_code == 201


def test_days_off_are_skipped(api: Api) -> None:
    """S-07, S-09, S-13: excluded days and days of a calendar, each with its reason, for a trigger and for a file."""
    deploy_calendar(api, "2026-03-04/2026-03-05")
    schedule = MORNINGS | {"exclude": ["2026-03-03"], "calendars": ["holidays"]}
    api.create(schedule=schedule)
    preview = api.get(f"{T}/next", n=2).json()
    assert days(preview) == ["2026-03-06", "2026-03-07"]
    assert preview["skipped"] == [
        {"local": "2026-03-03T09:00:00", "reason": "exclude"},
        {"local": "2026-03-04T09:00:00", "reason": "holidays"},
        {"local": "2026-03-05T09:00:00", "reason": "holidays"},
    ]
    assert api.client.post("/api/v1/next?n=2", json=full_manifest(schedule=schedule)).json() == preview


def test_a_preview_with_an_unknown_calendar_is_refused(api: Api) -> None:
    """S-13: as a deploy would be."""
    answer = api.post("/next", full_manifest(schedule=MORNINGS | {"calendars": ["holidays"]}))
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "spec.schedule.calendars[0]")


def test_a_count_limits_the_fires_shown(api: Api, database: Database, clock: HandClock) -> None:
    """S-07, S-09: for a file all of them, for a trigger those that have not started; also with `after`."""
    schedule = {"every": "1h", "count": 4}
    assert len(api.post("/next", full_manifest(schedule=schedule)).json()["fires"]) == 4
    api.create(schedule=schedule)
    assert len(api.get(f"{T}/next").json()["fires"]) == 4
    world = World(database, clock)
    world.advance(hours=1)
    world.resync()
    assert [fire["utc"] for fire in api.get(f"{T}/next").json()["fires"]] == [
        "2026-03-02T10:00:00Z",
        "2026-03-02T11:00:00Z",
        "2026-03-02T12:00:00Z",
    ]
    later = api.get(f"{T}/next", after="2026-03-02T10:30:00Z").json()["fires"]
    assert [fire["utc"] for fire in later] == ["2026-03-02T11:00:00Z", "2026-03-02T12:00:00Z"]
    assert api.get(f"{T}/next", after="2026-03-03T00:00:00Z").json() == {"fires": [], "skipped": []}


def test_a_spread_shows_the_actual_start(api: Api) -> None:
    """S-12: `utc` is the nominal time; `fires_at` is later by the same delay each time."""
    trigger = api.create(schedule={"every": "1h", "spread": "30m"})
    first, second = api.get(f"{T}/next", n=2).json()["fires"]
    assert (first["utc"], second["utc"]) == ("2026-03-02T09:00:00Z", "2026-03-02T10:00:00Z")
    assert first["fires_at"] == trigger["status"]["next_fire_at"]
    assert "2026-03-02T09:00:00Z" < first["fires_at"] < "2026-03-02T09:30:00Z"
    assert second["fires_at"].replace("T10:", "T09:") == first["fires_at"]
    same_trigger = full_manifest(schedule={"every": "1h", "spread": "30m"})
    same_trigger["metadata"] = {"project": "acme", "domain": "production", "task": "report", "name": "tick"}
    assert api.post("/next", same_trigger).json()["fires"][0] == first


def test_fires_within_a_hold_are_skipped(api: Api) -> None:
    """S-09, S-13: with the kind of hold as reason; fires continue after its end."""
    api.create(schedule={"every": "1h"})
    until = {"until": "2026-03-02T11:30:00Z", "reason": "the move"}
    api.post("/blackouts", {"from": "2026-03-02T09:30:00Z", "trigger": NAME, **until})
    preview = api.get(f"{T}/next", n=2).json()
    assert [fire["utc"][11:16] for fire in preview["fires"]] == ["09:00", "12:00"]
    assert preview["skipped"] == [
        {"local": "2026-03-02T10:00:00", "reason": "blackout"},
        {"local": "2026-03-02T11:00:00", "reason": "blackout"},
    ]
    api.post("/freeze", {"project": "acme", "until": "2026-03-02T10:30:00Z", "reason": "stocktaking"})
    preview = api.get(f"{T}/next", n=1).json()
    assert [fire["utc"][11:16] for fire in preview["fires"]] == ["12:00"]
    assert [skipped["reason"] for skipped in preview["skipped"]] == ["freeze", "freeze", "blackout"]


def test_under_a_freeze_without_an_end_there_are_no_fires(api: Api) -> None:
    """S-09, S-13: as many skipped times as were requested; a freeze of another project has no effect."""
    api.create(schedule={"every": "1h"})
    api.post("/freeze", {"project": "other", "reason": "stocktaking"})
    assert len(api.get(f"{T}/next", n=3).json()["fires"]) == 3
    api.post("/freeze", {"reason": "stocktaking"})
    preview = api.get(f"{T}/next", n=3).json()
    assert (preview["fires"], [skipped["reason"] for skipped in preview["skipped"]]) == ([], ["freeze"] * 3)
    assert api.post("/next", full_manifest(schedule={"every": "1h"})).json()["fires"] == []


def test_a_preview_of_an_inactive_trigger_says_so(api: Api, cli: Cli) -> None:
    """S-09, R-20: it shows the fires that the trigger would have, and the end of a pause."""
    api.create()
    assert "inactive" not in api.get(f"{T}/next").json()
    assert "not active" not in cli("next", NAME).err
    cli("deactivate", NAME, "--reason", "quiet")
    assert api.get(f"{T}/next", n=1).json()["inactive"] == {"reason": "quiet", "paused_until": None}
    result = cli("next", NAME)
    assert f"{NAME} is not active (quiet): it would fire at these times; `triggerctl activate {NAME}`" in result.err
    assert "not active" not in result.out
    cli("activate", NAME)
    cli("deactivate", NAME, "--until", "2026-03-02T09:00:00Z")
    assert f"{NAME} is paused until 2026-03-02T09:00:00Z: what falls before" in cli("next", NAME).err

"""Looking ahead over HTTP."""

from tests.controller.asking import IS_NEW, Api, T, manifest

NIGHTLY = {"cron": "30 2 * * *", "timezone": "Europe/Berlin"}


def full(**spec: object) -> dict[str, object]:
    names = {"project": "acme", "domain": "production", "task": "none", "name": "new"}
    return manifest(**spec) | {"apiVersion": "triggerctl/v1", "kind": "Trigger", "metadata": names}


def test_the_next_fires_of_a_trigger_and_what_a_gap_leaves_out(api: Api) -> None:
    """S-09: local and UTC times, and the night that has no 02:30."""
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
    """S-09: without `after` it is the clock's now, and ten fires."""
    api.create()
    fires = api.get(f"{T}/next").json()["fires"]
    assert len(fires) == 10
    assert fires[0] == {
        "id": "every/2026-03-02T08:01:00Z",
        "utc": "2026-03-02T08:01:00Z",
        "local": "2026-03-02T08:01:00Z",
    }


def test_a_manifest_can_be_previewed_before_it_is_deployed(api: Api) -> None:
    """S-09: nothing is written, and the task need not exist yet; the fold's second pass is left out."""
    answer = api.client.post("/api/v1/next?n=2&after=2026-10-24T12:00:00Z", json=full(schedule=NIGHTLY))
    assert answer.status_code == 200
    assert [fire["utc"] for fire in answer.json()["fires"]] == ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
    assert answer.json()["skipped"] == [{"local": "2026-10-25T02:30:00", "reason": "fold"}]
    assert api.get("/triggers").json()["items"] == []


def test_an_in_is_previewed_from_now(api: Api) -> None:
    """S-15: what a deploy would resolve it to."""
    answer = api.post("/next", full(schedule={"in": "2h"}))
    assert [fire["utc"] for fire in answer.json()["fires"]] == ["2026-03-02T10:00:00Z"]


def test_a_preview_refuses_what_a_deploy_would(api: Api) -> None:
    """S-02: a schedule that never fires is refused, saying which part."""
    answer = api.post("/next", full(schedule={"cron": "0 0 30 2 *"}))
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert api.put(T, manifest(schedule={"cron": "0 0 30 2 *"}), IS_NEW).status_code == 422

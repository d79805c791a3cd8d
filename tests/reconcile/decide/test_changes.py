"""What the next revision of a trigger is, and whether it declares a baseline."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from reconcile.decide import changes
from reconcile.decide.changes import NextRevision
from reconcile.schedule.definition import Closed
from revisions.errors import Conflict, Invalid
from revisions.history.chain import canonical
from revisions.history.triggers import Action, Trigger
from revisions.ids import TriggerKey
from revisions.spec.trigger import TriggerManifest
from tests.world import trigger_document

NOW = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
KEY = TriggerKey("acme", "production", "report", "tick")
HOURLY = {"every": "1h"}
PAST, FUTURE = "2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z"


def at(hour: float) -> datetime:
    """An hour of the day of NOW."""
    return NOW.replace(hour=0, minute=0) + timedelta(hours=hour)


def manifest_of(tags: Any = None, **spec: Any) -> TriggerManifest:
    return TriggerManifest.read(trigger_document(tags=tags, **{"schedule": HOURLY, **spec}))


def current_of(
    *,
    active: bool = True,
    deleted: bool = False,
    until: datetime | None = None,
    origin: str | None = None,
    tags: tuple[str, ...] = (),
    resolved: str = "{}",
    **spec: Any,
) -> Trigger:
    """The row of a trigger that was deployed with this spec."""
    return Trigger(
        trigger_id="T",
        key=KEY,
        revision=3,
        active=active and not deleted,
        deleted=deleted,
        tags=tags,
        until=until,
        origin=origin,
        resolved=resolved,
        scopes='["*"]',
        spec=canonical(manifest_of(**spec).written),
        hash="",
        changed_at=NOW,
        changed_by="ann",
        deactivated_reason=None,
        stopped_for=None,
    )


def deployed(
    current: Trigger | None,
    *,
    origin: str | None = None,
    calendars: Closed = (),
    takes_over: bool = False,
    **spec: Any,
) -> NextRevision | None:
    manifest = manifest_of(**spec)
    written = canonical(manifest.written)
    return changes.deploy(
        current,
        manifest,
        written,
        NOW,
        reason="why",
        origin=origin,
        scopes='["bob"]',
        calendars=calendars,
        takes_over=takes_over,
    )


def following(current: Trigger | None = None, **spec: Any) -> NextRevision:
    made = deployed(current, takes_over=True, **spec)
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("current", "asked", "is_change"),
    [
        pytest.param(current_of(), {}, False, id="the same"),
        pytest.param(current_of(), {"active": True}, False, id="the same, named active"),
        pytest.param(current_of(), {"active": False}, True, id="named inactive"),
        pytest.param(current_of(active=False), {}, False, id="inactive, and the manifest does not say"),
        pytest.param(current_of(active=False), {"active": True}, True, id="inactive, named active"),
        pytest.param(current_of(), {"description": "x"}, True, id="another spec"),
        pytest.param(current_of(), {"tags": ["a"]}, True, id="other tags"),
        pytest.param(current_of(tags=("a",)), {"tags": ["a"]}, False, id="the same tags"),
        pytest.param(current_of(), {"origin": "team"}, True, id="an origin"),
        pytest.param(current_of(origin="other"), {"origin": "team"}, True, id="another origin"),
        pytest.param(current_of(origin="team"), {"origin": "team"}, False, id="the same origin"),
        pytest.param(current_of(origin="team"), {}, False, id="no origin named"),
        pytest.param(current_of(), {"takes_over": True}, True, id="a new author takes over"),
        pytest.param(current_of(deleted=True), {}, True, id="deleted"),
        pytest.param(None, {}, True, id="new"),
    ],
)
def test_an_identical_deploy_is_no_change(current: Trigger | None, asked: dict[str, Any], is_change: bool) -> None:
    """R-06, R-22, X-15: spec, tags, origin and activity are compared."""
    assert (deployed(current, **asked) is not None) is is_change


def test_a_new_trigger_is_as_the_manifest_says() -> None:
    """R-03: active unless it says otherwise."""
    made = deployed(None, origin="team", tags=["b", "a"], input={"x": 1})
    assert made == NextRevision(
        action=Action.DEPLOY,
        active=True,
        reason="why",
        tags=("a", "b"),
        until=None,
        origin="team",
        resolved="{}",
        scopes='["bob"]',
        spec=canonical({"task_version": "v1", "schedule": HOURLY, "input": {"x": 1}}),
    )


@pytest.mark.parametrize(
    ("current", "asked", "active", "until", "origin"),
    [
        pytest.param(current_of(), {}, True, None, None, id="active stays active"),
        pytest.param(current_of(active=False), {}, False, None, None, id="inactive stays inactive"),
        pytest.param(current_of(active=False, until=at(12)), {}, False, at(12), None, id="a pause keeps its end"),
        pytest.param(
            current_of(active=False, until=at(12)), {"active": False}, False, None, None, id="named inactive: for good"
        ),
        pytest.param(
            current_of(active=False, until=at(12)),
            {"active": True},
            True,
            None,
            None,
            id="named active: the pause ends",
        ),
        pytest.param(current_of(origin="team"), {}, True, None, "team", id="the origin stays"),
        pytest.param(current_of(origin="team"), {"origin": "new"}, True, None, "new", id="an origin is taken over"),
        pytest.param(
            current_of(deleted=True, origin="team", until=at(12)), {}, True, None, None, id="nothing of a deleted one"
        ),
        pytest.param(None, {"active": False}, False, None, None, id="new, named inactive"),
    ],
)
def test_what_a_deploy_does_not_name_it_leaves_alone(
    current: Trigger | None, asked: dict[str, Any], active: bool, until: datetime | None, origin: str | None
) -> None:
    """R-05, R-20, R-22: activity, a pause and its end, the origin."""
    made = deployed(current, description="new", **asked)
    assert made is not None
    assert (made.active, made.until, made.origin) == (active, until, origin)


def test_the_instant_of_an_in_is_worked_out_once() -> None:
    """S-15: a deploy that leaves the schedule alone keeps it, one that changes the schedule does not."""
    resolved = canonical({"at": "2026-03-02T09:00:00Z"})
    in_hours: dict[str, Any] = {"schedule": {"in": "2h"}}
    current = current_of(resolved=resolved, **in_hours)
    same = deployed(current, description="x", **in_hours)
    other = deployed(current, schedule={"in": "3h"})
    back = deployed(replace(current, active=False, deleted=True), **in_hours)
    assert [made.resolved for made in (same, other, back) if made] == [
        resolved,
        canonical({"at": "2026-03-02T11:30:00Z"}),
        canonical({"at": "2026-03-02T10:30:00Z"}),
    ]


def limits(expires_at: str) -> dict[str, Any]:
    return {"limits": {"expires_at": expires_at}}


@pytest.mark.parametrize(
    ("current", "asked", "path", "message"),
    [
        pytest.param(None, limits(PAST), "limits.expires_at", f"{PAST} is past", id="new, expired"),
        pytest.param(None, limits("2026-03-02T08:30:00Z"), "limits.expires_at", "is past", id="new, expires now"),
        pytest.param(current_of(), limits(PAST), "limits.expires_at", f"{PAST} is past", id="changed, expired"),
        pytest.param(
            current_of(**limits(FUTURE)), limits(PAST), "limits.expires_at", f"{PAST} is past", id="moved to the past"
        ),
        pytest.param(
            current_of(active=False, **limits(PAST)),
            {**limits(PAST), "active": True},
            "limits.expires_at",
            f"{PAST} is past",
            id="activated, expired",
        ),
        pytest.param(
            None,
            {"schedule": {"at": FUTURE}, **limits(FUTURE)},
            "limits.expires_at",
            f"lies not after the only fire, {FUTURE}",
            id="expires with its only fire",
        ),
        pytest.param(
            None, {"schedule": {"at": PAST}}, "schedule.at", "has no fire left after 2026-03-02T08:30:00Z", id="past"
        ),
        pytest.param(
            None,
            {"schedule": {"at": "2099-01-01T00:00:00Z"}},
            "schedule.at",
            "lies more than 50 years ahead",
            id="far ahead",
        ),
        pytest.param(
            None, {"schedule": {"cron": "0 0 30 2 *"}}, "schedule.cron", "never fires within 50 years", id="never"
        ),
        pytest.param(None, {"schedule": {**HOURLY, "until": PAST}}, "schedule.until", f"{PAST} is past", id="over"),
        pytest.param(
            None,
            {"schedule": {"cron": "0 0 1 1 *", "until": FUTURE}},
            "schedule.cron",
            "has no fire ahead within until",
            id="over before its first fire",
        ),
        pytest.param(
            None,
            {
                "schedule": {"cron": "0 0 1 6 *", "timezone": "Europe/Berlin", "start": FUTURE},
                **limits("2026-05-01T00:00:00Z"),
            },
            "schedule.cron",
            "has no fire ahead within start, limits.expires_at",
            id="expired before its first fire",
        ),
        pytest.param(
            None,
            {"schedule": {"every": "1d", "until": "2026-03-03T12:00:00Z", "exclude": ["2026-03-03"]}},
            "schedule.every",
            "has no fire ahead within until, exclude",
            id="closed on its only day",
        ),
    ],
)
def test_a_schedule_without_a_fire_ahead_is_refused(
    current: Trigger | None, asked: dict[str, Any], path: str, message: str
) -> None:
    """S-02, S-15, X-08: at the field to change, with what to do."""
    with pytest.raises(Invalid) as refused:
        deployed(current, **asked)
    [fault] = refused.value.errors
    assert fault.path == f"spec.{path}"
    assert fault.message.endswith(message)
    assert fault.hint


@pytest.mark.parametrize(
    ("current", "asked"),
    [
        pytest.param(current_of(**limits(PAST)), limits(PAST), id="expired, and the end stays"),
        pytest.param(current_of(schedule={"at": PAST}), {"schedule": {"at": PAST}}, id="over, and the schedule stays"),
        pytest.param(
            current_of(active=False, **limits(PAST)), {**limits(PAST), "active": False}, id="expired and inactive"
        ),
        pytest.param(
            current_of(schedule={**HOURLY, "kickoff_time_input": "a"}, **limits(PAST)),
            {"schedule": {**HOURLY, "kickoff_time_input": "b"}, **limits(PAST)},
            id="over, and another input gets the time",
        ),
    ],
)
def test_what_is_over_can_still_be_described_otherwise(current: Trigger, asked: dict[str, Any]) -> None:
    """S-02: only a new or changed schedule, or end, must have a fire ahead."""
    assert deployed(current, description="new", **asked) is not None


def test_closed_days_of_calendars_are_respected() -> None:
    """S-13: a calendar that closes the only day leaves no fire."""
    spec: dict[str, Any] = {"schedule": {"cron": "0 0 * * *", "until": "2026-03-03T12:00:00Z", "calendars": ["bank"]}}
    assert deployed(None, **spec) is not None
    with pytest.raises(Invalid, match="has no fire ahead within until, calendars"):
        deployed(None, calendars=(("bank", frozenset({date(2026, 3, 3)})),), **spec)


def test_activation_ends_a_pause_and_leaves_the_rest() -> None:
    """R-08: what is active already is no change."""
    paused = current_of(active=False, until=at(12), origin="team", tags=("a",))
    made = changes.activate(paused, NOW, reason="back")
    assert made == NextRevision(
        action=Action.ACTIVATE,
        active=True,
        reason="back",
        tags=("a",),
        until=None,
        origin="team",
        resolved="{}",
        scopes='["*"]',
        spec=paused.spec,
    )
    assert changes.activate(current_of(), NOW, reason="back") is None


@pytest.mark.parametrize(
    ("spec", "started", "path"),
    [
        pytest.param({"schedule": {"at": PAST}}, 0, "spec.schedule.at", id="no fire left"),
        pytest.param(limits(PAST), 0, "spec.limits.expires_at", id="expired"),
        pytest.param({"schedule": {**HOURLY, "count": 3}}, 3, "spec.schedule.count", id="all have started"),
        pytest.param({"schedule": {**HOURLY, "count": 3}}, 4, "spec.schedule.count", id="more have started"),
        pytest.param({"schedule": {**HOURLY, "count": 3}}, 2, None, id="one may still start"),
        pytest.param({}, 99, None, id="without a count"),
    ],
)
def test_only_what_has_a_fire_left_can_be_activated(spec: dict[str, Any], started: int, path: str | None) -> None:
    """S-07, S-15: the fault names what is used up."""
    paused = current_of(active=False, **spec)
    if path is None:
        assert changes.activate(paused, NOW, reason="", started=started) is not None
        return
    with pytest.raises(Invalid) as refused:
        changes.activate(paused, NOW, reason="", started=started)
    assert [fault.path for fault in refused.value.errors] == [path]
    assert refused.value.errors[0].hint


def test_activation_asks_the_calendars() -> None:
    """S-13, S-15."""
    spec: dict[str, Any] = {"schedule": {"cron": "0 0 * * *", "until": "2026-03-03T12:00:00Z", "calendars": ["bank"]}}
    closed = (("bank", frozenset({date(2026, 3, 3)})),)
    with pytest.raises(Invalid, match="no fire ahead"):
        changes.activate(current_of(active=False, **spec), NOW, reason="", calendars=closed)


def test_a_pause_may_have_an_end_that_is_ahead() -> None:
    """R-08: what is inactive already is no change, but an end in the past is refused there too."""
    made = changes.deactivate(current_of(origin="team"), NOW, reason="holiday", until=at(12))
    assert made is not None
    assert (made.action, made.active, made.until) == (Action.DEACTIVATE, False, at(12))
    assert (made.reason, made.origin) == ("holiday", "team")
    assert changes.deactivate(current_of(active=False), NOW, reason="", until=at(12)) is None
    for end in (NOW, at(8)):
        with pytest.raises(Invalid, match="is past") as refused:
            changes.deactivate(current_of(active=False), NOW, reason="", until=end)
        assert refused.value.errors[0].path == "until"
        assert refused.value.errors[0].hint


def test_deletion_ends_activity_and_pause() -> None:
    """R-05: all else stays for whoever brings it back."""
    made = changes.delete(current_of(active=False, until=at(12), tags=("a",)), reason="done")
    assert (made.action, made.active, made.until) == (Action.DELETE, False, None)
    assert (made.reason, made.tags) == ("done", ("a",))


def test_a_rename_is_a_deploy_under_the_new_name() -> None:
    """R-22: to the name it has it is no change."""
    new = KEY._replace(name="tock")
    made = changes.rename(current_of(active=False, until=at(12)), new, reason="better")
    assert made is not None
    assert (made.action, made.key, made.active, made.until) == (Action.DEPLOY, new, False, at(12))
    assert made.reason == "better"
    assert changes.rename(current_of(), KEY, reason="") is None


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("", "watermark set back from 2026-03-02T09:00:00Z"),
        ("clock", "watermark set back from 2026-03-02T09:00:00Z: clock"),
    ],
)
def test_a_watermark_ahead_of_now_can_be_set_back(reason: str, said: str) -> None:
    """L-12: by a deploy of the same that declares a baseline."""
    made = changes.rebase(current_of(), at(9), NOW, reason=reason)
    assert (made.action, made.rebases, made.reason) == (Action.DEPLOY, True, said)
    assert not changes.keeps_watermark(current_of(), made)


@pytest.mark.parametrize("watermark", [pytest.param(at(8), id="behind"), pytest.param(NOW, id="at now")])
def test_a_watermark_that_is_not_ahead_stays(watermark: datetime) -> None:
    """L-12."""
    with pytest.raises(Conflict, match="is not ahead of now") as refused:
        changes.rebase(current_of(), watermark, NOW, reason="")
    [fault] = refused.value.errors
    assert (fault.path, fault.hint) == ("watermark", "only one that is ahead can be set back")


COUNTING: dict[str, Any] = {"catchup": {"inactive": True}}


@pytest.mark.parametrize(
    ("current", "next_revision", "keeps"),
    [
        pytest.param(None, following(), False, id="the first deploy"),
        pytest.param(current_of(), following(description="x"), True, id="another description"),
        pytest.param(current_of(), following(schedule={"every": "2h"}), False, id="another schedule"),
        pytest.param(current_of(), following(schedule={**HOURLY, "count": 3}), False, id="another bound"),
        pytest.param(
            current_of(),
            following(schedule={**HOURLY, "kickoff_time_input": "x"}),
            True,
            id="another input gets the time",
        ),
        pytest.param(current_of(), replace(following(), active=False), False, id="a pause"),
        pytest.param(current_of(active=False), following(), False, id="the end of a pause"),
        pytest.param(current_of(active=False), replace(following(), active=False), True, id="within a pause"),
        pytest.param(current_of(), replace(following(), action=Action.DELETE, active=False), False, id="a deletion"),
        pytest.param(
            current_of(active=False),
            replace(following(), action=Action.DELETE, active=False),
            False,
            id="the deletion of what is inactive",
        ),
        pytest.param(current_of(deleted=True), replace(following(), active=False), False, id="back, but inactive"),
        pytest.param(current_of(), replace(following(), rebases=True), False, id="a rebase"),
        pytest.param(
            current_of(**COUNTING),
            replace(following(**COUNTING), active=False),
            True,
            id="inactive time counts: a pause",
        ),
        pytest.param(
            current_of(active=False, **COUNTING), following(**COUNTING), True, id="inactive time counts: the end of it"
        ),
        pytest.param(
            current_of(**COUNTING),
            replace(following(**COUNTING), action=Action.DELETE, active=False),
            True,
            id="inactive time counts: a deletion",
        ),
        pytest.param(
            current_of(active=False),
            replace(following(**COUNTING), active=False),
            False,
            id="inactive time counts from now on",
        ),
        pytest.param(
            current_of(active=False, **COUNTING),
            replace(following(), active=False),
            False,
            id="inactive time counts no more",
        ),
        pytest.param(current_of(), following(**COUNTING), True, id="inactive time is to count, while active"),
        pytest.param(current_of(**COUNTING), following(), True, id="inactive time is not to count, while active"),
        pytest.param(
            current_of(**COUNTING),
            following(schedule={"every": "2h"}, **COUNTING),
            False,
            id="inactive time counts: another schedule",
        ),
    ],
)
def test_a_change_keeps_the_watermark_or_declares_a_baseline(
    current: Trigger | None, next_revision: NextRevision, keeps: bool
) -> None:
    """R-21: timing, activity and deletion decide, and whether inactive time counts."""
    assert changes.keeps_watermark(current, next_revision) is keeps


@pytest.mark.parametrize(
    ("current", "expected"),
    [
        pytest.param(current_of(), True, id="active"),
        pytest.param(current_of(active=False), False, id="inactive"),
        pytest.param(current_of(deleted=True), False, id="deleted"),
        pytest.param(current_of(active=False, **COUNTING), True, id="inactive, and its time counts"),
        pytest.param(current_of(active=False, catchup={"inactive": False}), False, id="inactive, and it does not"),
    ],
)
def test_the_time_of_what_is_inactive_counts_only_where_the_spec_says_so(current: Trigger, expected: bool) -> None:
    """R-21."""
    assert changes.has_occurrences(current) is expected


@pytest.mark.parametrize(
    ("next_revision", "after", "fires_at"),
    [
        pytest.param(following(), at(9), at(10), id="the next one"),
        pytest.param(replace(following(), active=False), at(9), None, id="inactive"),
        pytest.param(following(schedule={"at": FUTURE}), datetime(2026, 4, 1, tzinfo=UTC), None, id="none left"),
        pytest.param(
            following(schedule={"every": "1h", "spread": "10m"}), at(9), at(10) + timedelta(seconds=526), id="spread"
        ),
        pytest.param(
            replace(following(schedule={"every": "1h", "spread": "10m"}), key=KEY._replace(name="tock")),
            at(9),
            at(10) + timedelta(seconds=485),
            id="spread, under its new name",
        ),
        pytest.param(
            following(**limits("2026-03-02T10:00:00Z")), at(9), at(10), id="at its expiry, where nothing fires before"
        ),
        pytest.param(following(**limits("2026-03-02T10:30:00Z")), at(9), at(10), id="before its expiry"),
    ],
)
def test_the_alarm_is_set_for_the_next_fire_or_the_expiry(
    next_revision: NextRevision, after: datetime, fires_at: datetime | None
) -> None:
    """S-12, X-08, L-02."""
    assert changes.next_fire(KEY, next_revision, after, ()) == fires_at


def test_the_alarm_respects_closed_days() -> None:
    """S-13."""
    closed = (("bank", frozenset({date(2026, 3, 3)})),)
    next_revision = following(schedule={"cron": "0 9 * * *", "calendars": ["bank"]})
    assert changes.next_fire(KEY, next_revision, at(10), closed) == at(2 * 24 + 9)


def superseded_by(
    current: Trigger | None, watermark: float | None, **more: Any
) -> tuple[datetime, datetime, int | None] | None:
    found = changes.new_baseline(
        KEY,
        current,
        following(),
        NOW,
        watermark=None if watermark is None else at(watermark),
        backlogs=more.pop("backlogs", ()),
        **more,
    ).superseded
    if found is None:
        return None
    assert (found.outcome, found.reason) == ("superseded", "")
    return found.first.at, found.until, found.count


@pytest.mark.parametrize(
    ("current", "watermark", "backlogs", "expected"),
    [
        pytest.param(None, None, [], None, id="a new trigger"),
        pytest.param(current_of(), 8, [], None, id="nothing is undecided"),
        pytest.param(current_of(), 5, [], (at(6), at(8), 3), id="what follows the watermark"),
        pytest.param(current_of(), 6, [(at(1), at(3))], (at(2), at(8), 4), id="a backlog too"),
        pytest.param(current_of(active=False), 5, [], None, id="inactive time has no occurrences"),
        pytest.param(current_of(active=False, **COUNTING), 5, [], (at(6), at(8), 3), id="inactive time that counts"),
    ],
)
def test_what_was_undecided_is_superseded(
    current: Trigger | None,
    watermark: float | None,
    backlogs: list[tuple[datetime, datetime]],
    expected: tuple[datetime, datetime, int] | None,
) -> None:
    """R-21, invariant 4: as one range, up to now."""
    assert superseded_by(current, watermark, backlogs=backlogs) == expected


def test_what_is_superseded_is_judged_by_the_calendars_before() -> None:
    """S-13: and the next fire by those after."""
    spec: dict[str, Any] = {"schedule": {"every": "1h", "calendars": ["bank"]}}
    closed: Closed = (("bank", frozenset({NOW.date()})),)
    begun = changes.new_baseline(
        KEY, current_of(**spec), following(**spec), NOW, watermark=at(5), backlogs=(), calendars=(closed, ())
    )
    assert (begun.superseded, begun.next_fire_at) == (None, at(9))
    begun = changes.new_baseline(
        KEY, current_of(**spec), following(**spec), NOW, watermark=at(5), backlogs=(), calendars=((), closed)
    )
    assert begun.superseded is not None
    assert begun.next_fire_at == at(24)


def test_a_spec_that_cannot_be_read_supersedes_nothing() -> None:
    """L-13: one can be rid of it all the same."""
    unreadable = replace(current_of(), spec=canonical({"task_version": "v1", "schedule": {"sometimes": True}}))
    assert superseded_by(unreadable, 5) is None


@pytest.mark.parametrize(
    ("resumed_at", "watermark", "begins"),
    [
        pytest.param(None, 5, NOW, id="no pause: now"),
        pytest.param(7, None, at(7), id="the end of the pause"),
        pytest.param(7, 6, at(7), id="the end of the pause, later than the watermark"),
        pytest.param(7, 7.5, at(7.5), id="what was deployed after the pause was to end"),
    ],
)
def test_a_baseline_begins_now_or_where_a_pause_ended(
    resumed_at: float | None, watermark: float | None, begins: datetime
) -> None:
    """L-05, R-21: and the next fire is the first after it."""
    begun = changes.new_baseline(
        KEY,
        current_of(active=False),
        following(),
        NOW,
        watermark=None if watermark is None else at(watermark),
        backlogs=(),
        resumed_at=None if resumed_at is None else at(resumed_at),
    )
    assert begun.watermark == begins
    assert begun.next_fire_at == at(8 if begins < at(8) else 9)


@pytest.mark.parametrize(
    ("before", "after", "moves"),
    [
        pytest.param({}, {}, False, id="never"),
        pytest.param({}, limits(FUTURE), True, id="now it does"),
        pytest.param(limits(FUTURE), {}, True, id="no longer"),
        pytest.param(limits(FUTURE), limits("2026-05-01T00:00:00Z"), True, id="later"),
        pytest.param(limits(FUTURE), limits("2026-04-01T01:00:00+01:00"), False, id="the same instant"),
    ],
)
def test_a_change_may_move_the_end(before: dict[str, Any], after: dict[str, Any], moves: bool) -> None:
    """X-08: compared as instants."""
    assert changes.moves_end(current_of(**before), following(**after)) is moves
    assert not changes.moves_end(None, following(**after))


@pytest.mark.parametrize(
    ("before", "after", "moves"),
    [
        pytest.param({}, {}, False, id="none"),
        pytest.param({"max_cost": 5}, {"max_cost": 5, "budget_period": "month"}, False, id="the default written out"),
        pytest.param({"max_cost": 5}, {"max_cost": 6}, True, id="another amount"),
        pytest.param({"max_cost": 5}, {"max_cost": 5, "budget_period": "day"}, True, id="another period"),
        pytest.param({"max_cost": 5}, {"max_cost": 5, "estimate": 1}, True, id="an estimate"),
        pytest.param({"max_runs": 5}, {"max_runs": 6}, False, id="another limit"),
    ],
)
def test_a_change_may_move_the_budget(before: dict[str, Any], after: dict[str, Any], moves: bool) -> None:
    """X-08."""
    assert changes.moves_budget(current_of(limits=before), following(limits=after)) is moves


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        pytest.param({"schedule": {"cron": "61 * * * *"}}, "schedule.cron", "", id="an expression"),
        pytest.param(
            {"schedule": {"every": "1h", "cron": "@daily"}}, "schedule.every", "exactly one of", id="two kinds"
        ),
        pytest.param({"expect": {}}, "expect", "names nothing", id="an expectation"),
        pytest.param({"limits": {"estimate": 1}}, "limits.estimate", "only beside max_cost", id="an estimate alone"),
        pytest.param(
            {"limits": {"budget_period": "day"}}, "limits.budget_period", "only beside max_cost", id="a period alone"
        ),
        pytest.param(
            {"limits": {"max_cost": 1, "estimate": 2}}, "limits.estimate", "would let nothing start", id="too dear"
        ),
        pytest.param({"serialize_key": "{{ x }}"}, "serialize_key", "looks like a template", id="a template"),
    ],
)
def test_each_block_that_makes_no_sense_is_a_fault(spec: dict[str, Any], path: str, message: str) -> None:
    """S-01, S-02, X-08: with where it stands."""
    [fault] = changes.faults(manifest_of(**spec))
    assert fault.path == f"spec.{path}"
    assert message in fault.message


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="plain"),
        pytest.param({"schedule": {"in": "2h"}}, id="an in"),
        pytest.param({"limits": {"max_cost": 1, "estimate": 1}}, id="an estimate as high as the budget"),
        pytest.param({"catchup": {"window": "2h"}, "start_within": "1h", "expect": {"within": "2h"}}, id="spans"),
        pytest.param({"serialize_key": "db"}, id="a key"),
    ],
)
def test_what_can_be_read_has_no_fault(spec: dict[str, Any]) -> None:
    """S-02."""
    assert changes.faults(manifest_of(**spec)) == []


def test_all_faults_are_listed_at_once() -> None:
    """S-02, U-01: a person corrects them in one go."""
    found = changes.faults(manifest_of(expect={}, serialize_key="{{", limits={"estimate": 1}))
    assert [fault.path for fault in found] == [
        "spec.expect",
        "spec.limits.estimate",
        "spec.serialize_key",
    ]
    assert all(fault.hint for fault in found)

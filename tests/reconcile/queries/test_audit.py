"""Audits of a whole product by hand: what the revisions then in force named, against what was recorded (U-07)."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import delete

from reconcile.decide.admission import Pace
from reconcile.queries.audit import Audited, Place, audit_faults, audit_trigger
from reconcile.report.audit import AuditResult
from revisions.clock import HandClock
from revisions.errors import Invalid, NotFound
from revisions.history.chain import canonical
from revisions.outcomes import OccurrenceOutcome, RunSource
from revisions.store import calendars
from revisions.store import runs as run_store
from revisions.store.calendars import CalendarRow
from revisions.store.occurrences import Skip, record
from revisions.store.run_tables import occurrences, runs
from revisions.store.runs import NewRun
from tests.world import World, key

MINUTE = timedelta(minutes=1)
GRACE = Pace().grace
ALL = {"policy": "all"}
COUNTS = {"policy": "all", "inactive": True}


def audit(world: World, name: str = "tick", limit: int = 100_000, **options: Any) -> Audited:
    """From the world's start until just after now."""
    assert isinstance(world.clock, HandClock)
    world.clock.step(timedelta(seconds=1))
    try:
        return audit_trigger(world.database, GRACE, key(name), world.start, None, limit, **options)
    finally:
        world.clock.step(timedelta(seconds=-1))


def minute(world: World, at: datetime) -> int:
    return int((at - world.start) / MINUTE)


def told(world: World, name: str = "tick") -> list[tuple[str, str, int, int]]:
    """(kind, outcome or reason, first minute, last minute) of each stretch of like lines."""
    stretches: list[tuple[str, str, int, int]] = []
    for line in audit(world, name).lines:
        like, at = (line.kind.value, line.outcome or line.reason), minute(world, line.at)
        if stretches and stretches[-1][:2] == like:
            stretches[-1] = (*like, stretches[-1][2], at)
        else:
            stretches.append((*like, at, at))
    return stretches


def live(world: World, minutes: int) -> None:
    """Time in which a loop looks every minute."""
    for _ in range(minutes):
        world.advance(minutes=1)
        world.resync()


def forget(world: World, table: Any, minute: int) -> None:
    """Removes what stands for a minute, behind the product's back."""
    with world.database.write() as connection:
        connection.execute(delete(table).where(table.c.scheduled_at == world.start + minute * MINUTE))


def insert_run(world: World, occurrence_id: str, minute: int, source: RunSource = RunSource.SCHEDULE) -> None:
    """A run that nobody decided."""
    at = world.start + minute * MINUTE
    new = NewRun(
        id=f"{minute:026}",
        trigger_id=world.id("tick"),
        occurrence_id=occurrence_id,
        revision=1,
        project="acme",
        domain="production",
        task="report",
        task_version="v1",
        source=source,
        overlap="allow",
        max_attempts=1,
        actor="system",
        scheduled_at=at,
        created_at=at,
        input="{}",
    )
    with world.database.write() as connection:
        run_store.create(connection, [new])


def test_what_fires_when_it_should_is_on_time(world: World) -> None:
    """U-07: a run for each minute; nothing before the first deploy, and the instant of the deploy is not one."""
    world.create(overlap="allow")
    live(world, 5)
    assert told(world) == [("on_time", "", 1, 5)]
    assert audit(world).lines[0].run_id == world.runs()[0].id


def test_what_was_started_after_the_grace_is_late(world: World) -> None:
    """U-07, L-06: catch-up after an outage; what was still live is on time."""
    world.create(catchup=ALL)
    live(world, 2)
    world.advance(minutes=5, seconds=10)
    world.resync()
    assert told(world) == [("on_time", "", 1, 2), ("late", "", 3, 6), ("on_time", "", 7, 7)]


def test_skips_are_told_by_their_cause(world: World) -> None:
    """U-07, E-05: a missed range covers each minute of it; the run that goes on keeps the others out."""
    world.create()
    world.advance(minutes=10, seconds=5)
    world.resync()
    live(world, 3)
    assert told(world) == [
        ("skipped", "missed", 1, 9),
        ("on_time", "", 10, 10),
        ("skipped", "concurrency", 11, 13),
    ]
    summary = audit(world).summary
    assert summary is not None
    assert summary.skips == {("missed", ""): 9, ("concurrency", ""): 3}
    assert summary.is_clean


def test_what_no_pass_looked_at_is_undecided_not_missing(world: World) -> None:
    """U-07: later than the watermark, or in a stored backlog."""
    world.create(catchup=ALL)
    live(world, 1)
    world.advance(minutes=5)
    assert told(world) == [("on_time", "", 1, 1), ("undecided", "", 2, 6)]
    world.loop = world.another_loop_without_catch_up()
    world.resync()
    assert told(world) == [("on_time", "", 1, 1), ("undecided", "", 2, 4), ("on_time", "", 5, 6)]
    assert not audit_faults(world.database, GRACE, key("tick"))


def test_a_changed_schedule_is_judged_by_what_was_in_force_then(world: World) -> None:
    """U-07, R-21: minutes before the change, fives of minutes after it; what was undecided then is superseded."""
    world.create(overlap="allow")
    live(world, 3)
    world.advance(minutes=2)
    world.update("tick", 1, overlap="allow", schedule={"every": "5m"})
    live(world, 10)
    assert told(world) == [
        ("on_time", "", 1, 3),
        ("skipped", "superseded", 4, 5),
        ("on_time", "", 10, 15),
    ]
    assert [minute(world, line.at) for line in audit(world).lines][-2:] == [10, 15]
    assert [line.revision for line in audit(world).lines] == [1] * 5 + [2] * 2


def test_a_deploy_that_leaves_the_schedule_alone_restarts_nothing(world: World) -> None:
    """U-07, R-21: what was undecided then is decided later, and is no one's superseded range."""
    world.create(overlap="allow", catchup=ALL)
    live(world, 3)
    world.advance(minutes=2)
    world.update("tick", 1, overlap="allow", catchup=ALL, description="other")
    world.advance(minutes=2)
    world.resync()
    assert told(world) == [("on_time", "", 1, 3), ("late", "", 4, 5), ("on_time", "", 6, 7)]
    assert [line.revision for line in audit(world).lines] == [1] * 5 + [2] * 2


def test_paused_time_is_inactive(world: World) -> None:
    """U-07, R-21: from the pause to the resume, both instants included; what was undecided is superseded."""
    world.create(overlap="allow")
    live(world, 2)
    world.advance(minutes=1)
    world.deactivate("tick", 1, "quiet")
    live(world, 5)
    world.activate("tick", 2)
    live(world, 2)
    assert told(world) == [
        ("on_time", "", 1, 2),
        ("skipped", "superseded", 3, 3),
        ("inactive", "deactivated", 4, 8),
        ("on_time", "", 9, 10),
    ]


def test_a_pause_that_ended_while_the_controller_was_down_ended_when_it_was_to(world: World) -> None:
    """U-07, R-21: the ACTIVATE is of later, the baseline is the pause's end."""
    world.create(overlap="allow", catchup=ALL)
    live(world, 2)
    world.deactivate("tick", 1, "quiet", until=world.start + 4 * MINUTE)
    world.advance(minutes=8)
    assert told(world) == [("on_time", "", 1, 2), ("inactive", "deactivated", 3, 10)]
    world.resync()
    world.resync()
    assert told(world) == [
        ("on_time", "", 1, 2),
        ("inactive", "deactivated", 3, 4),
        ("late", "", 5, 8),
        ("on_time", "", 9, 10),
    ]


def test_inactive_time_that_counts_is_caught_up(world: World) -> None:
    """U-07, R-21: under `catchup: {inactive: true}` paused time is undecided, then late; deleted time too."""
    world.create(overlap="allow", catchup=COUNTS)
    live(world, 2)
    world.deactivate("tick", 1)
    world.advance(minutes=3)
    assert told(world) == [("on_time", "", 1, 2), ("undecided", "", 3, 5)]
    world.activate("tick", 2)
    world.delete("tick", 3)
    world.advance(minutes=3)
    world.create(overlap="allow", catchup=COUNTS)
    world.resync()
    assert told(world) == [("on_time", "", 1, 2), ("late", "", 3, 6), ("on_time", "", 7, 8)]


def test_paused_time_counts_from_the_deploy_on_that_says_so(world: World) -> None:
    """U-07, R-21: what was paused before had no occurrences, for the spec in force then said so."""
    world.create(overlap="allow", catchup=ALL)
    live(world, 2)
    world.deactivate("tick", 1)
    world.advance(minutes=3)
    world.update("tick", 2, overlap="allow", catchup=COUNTS)
    world.advance(minutes=3)
    world.activate("tick", 3)
    world.resync()
    assert told(world) == [
        ("on_time", "", 1, 2),
        ("inactive", "deactivated", 3, 5),
        ("late", "", 6, 6),
        ("on_time", "", 7, 8),
    ]
    assert not audit_faults(world.database, GRACE, key("tick"))


def test_deleted_time_is_inactive_and_the_return_a_beginning(world: World) -> None:
    """U-07, R-05: under another schedule than before."""
    world.create(overlap="allow")
    live(world, 2)
    world.delete("tick", 1)
    live(world, 3)
    world.create(overlap="allow", schedule={"every": "2m"})
    live(world, 4)
    assert told(world) == [("on_time", "", 1, 2), ("inactive", "deleted", 3, 5), ("on_time", "", 6, 8)]


def test_a_rename_changes_nothing_of_it(world: World) -> None:
    """U-07, R-22: the whole life is told under the new name; the old one is not found."""
    world.create(overlap="allow")
    live(world, 2)
    world.rename("tick", "tock", 1)
    live(world, 2)
    assert told(world, "tock") == [("on_time", "", 1, 4)]
    with pytest.raises(NotFound):
        audit(world, "tick")


def test_a_run_that_was_removed_is_missing(world: World) -> None:
    """U-07: behind the product's back; nothing else is touched by it."""
    world.create(overlap="allow")
    live(world, 4)
    forget(world, runs, 3)
    assert told(world) == [("on_time", "", 1, 2), ("missing", "", 3, 3), ("on_time", "", 4, 4)]
    [fault] = audit_faults(world.database, GRACE, key("tick"))
    assert (fault.kind, fault.occurrence_id) == (AuditResult.MISSING, "every/2026-03-02T08:03:00Z")


def test_a_skip_that_was_removed_is_missing(world: World) -> None:
    """U-07: each occurrence of the range."""
    world.create()
    world.advance(minutes=4)
    world.resync()
    forget(world, occurrences, 1)
    assert told(world) == [("missing", "", 1, 3), ("on_time", "", 4, 4)]


@pytest.mark.parametrize("occurrence", ["every/2026-03-02T08:02:30Z", "cron/2026-03-02T08:02:00/UTC"])
def test_a_run_that_no_revision_explains_is_unexpected(world: World, occurrence: str) -> None:
    """U-07: of a time or of a schedule that none names; one that a person started is no matter of the schedule."""
    world.create(overlap="allow")
    live(world, 3)
    insert_run(world, occurrence, 2)
    insert_run(world, "manual/x", 1, RunSource.MANUAL)
    insert_run(world, "every/2026-03-02T08:02:10Z", 2, RunSource.BACKFILL)
    [fault] = audit_faults(world.database, GRACE, key("tick"))
    assert (fault.kind, fault.occurrence_id, fault.run_id) == (AuditResult.UNEXPECTED, occurrence, f"{2:026}")


def test_a_run_of_inactive_time_is_unexpected(world: World) -> None:
    """U-07: the schedule names it, but the revision in force was inactive."""
    world.create(overlap="allow")
    world.deactivate("tick", 1)
    world.advance(minutes=3)
    insert_run(world, "every/2026-03-02T08:02:00Z", 2)
    assert told(world) == [
        ("inactive", "deactivated", 1, 1),
        ("unexpected", "the trigger was inactive then", 2, 2),
        ("inactive", "deactivated", 3, 3),
    ]


def test_what_was_decided_twice_is_unexpected(world: World) -> None:
    """U-07: a run beside a skip, which no pass makes."""
    world.create(overlap="allow")
    live(world, 3)
    at = world.start + 2 * MINUTE
    skip = Skip(world.id("tick"), "every/2026-03-02T08:02:00Z", at, at, at, OccurrenceOutcome.MISSED, "", 1, 1)
    with world.database.write() as connection:
        record(connection, [skip])
    assert [(fault.reason, fault.at) for fault in audit_faults(world.database, GRACE, key("tick"))] == [
        ("decided twice", at)
    ]


def test_a_backfill_of_what_was_skipped_leaves_the_skip(world: World) -> None:
    """U-07, X-11: and its line names the run."""
    world.create()
    world.advance(minutes=3)
    world.resync()
    insert_run(world, "every/2026-03-02T08:01:00Z", 1, RunSource.BACKFILL)
    line = audit(world).lines[0]
    assert (line.kind, line.outcome, line.run_id) == (AuditResult.SKIPPED, "missed", f"{1:026}")


@pytest.mark.parametrize(
    ("night", "schedule", "ids"),
    [
        ("2026-03-29T00:00:00Z", {"cron": "30 2 * * *"}, []),
        ("2026-03-29T00:00:00Z", {"cron": "30 2 * * *", "gap": "shift"}, ["03:00:00/Europe/Berlin"]),
        ("2026-10-25T00:00:00Z", {"cron": "30 2 * * *"}, ["02:30:00/Europe/Berlin"]),
        (
            "2026-10-25T00:00:00Z",
            {"cron": "30 2 * * *", "fold": "both"},
            ["02:30:00/Europe/Berlin", "02:30:00/Europe/Berlin/2"],
        ),
    ],
    ids=["gap", "gap shifted", "fold", "fold both"],
)
def test_nights_of_a_changed_clock(world: World, night: str, schedule: dict[str, Any], ids: list[str]) -> None:
    """U-07, S-03, S-04: what such a night names is what is asked for, no more and no less."""
    begins = datetime.fromisoformat(night)
    world.advance(seconds=(begins - world.start).total_seconds())
    world.create(overlap="allow", schedule={**schedule, "timezone": "Europe/Berlin"})
    for _ in range(16):
        world.advance(minutes=15)
        world.resync()
    found = audit_trigger(world.database, GRACE, key("tick"), begins, None, 100)
    assert [line.occurrence_id.partition("T")[2] for line in found.lines] == ids
    assert {line.kind for line in found.lines} <= {AuditResult.ON_TIME}


def test_a_spread_is_no_lateness(world: World) -> None:
    """U-07, S-12: the trigger's own place in the window is when it is to fire; from there on the grace counts."""
    world.create(overlap="allow", schedule={"every": "1h", "spread": "50m"})
    world.advance(hours=1)
    live(world, 51)
    assert told(world) == [("on_time", "", 60, 60)]
    assert world.runs()[0].created_at - world.runs()[0].scheduled_at > GRACE


def test_after_its_count_of_starts_a_trigger_has_no_more(world: World) -> None:
    """U-07, S-07: from its last start to its deactivation nothing is missing, and then it is inactive."""
    world.create(overlap="allow", schedule={"every": "1m", "count": 2})
    world.advance(minutes=1)
    world.resync()
    live(world, 3)
    assert told(world) == [("on_time", "", 1, 2), ("inactive", "deactivated", 3, 4)]


def test_a_day_off_is_one_from_when_the_calendar_says_so(world: World) -> None:
    """U-07, S-13: what fired before that stays explained."""
    text = canonical({"owner": "ops", "reason": "holidays", "dates": ["2026-03-04"]})

    def write(revision: int, spec: str) -> None:
        row = CalendarRow("acme", "holidays", revision, False, "ann", world.clock_now(), spec)
        with world.database.write() as connection:
            calendars.append(connection, row)

    write(1, canonical({"owner": "ops", "reason": "holidays", "dates": []}))
    world.create(overlap="allow", schedule={"cron": "0 12 * * *", "calendars": ["holidays"]})
    for hours in (6, 24, 24, 24):
        world.advance(hours=hours)
        world.resync()
        if hours == 6:
            write(2, text)
    assert [line.at.day for line in audit(world).lines] == [2, 3, 5]
    assert not audit_faults(world.database, GRACE, key("tick"))


def test_lines_come_in_parts(world: World) -> None:
    """U-07: each part goes on where the one before ended; the summary stands in the first, and is of all."""
    world.create(catchup=ALL)
    world.advance(minutes=30)
    world.resync()
    live(world, 3)
    insert_run(world, "every/2026-03-02T08:02:30Z", 2)
    whole = audit(world).lines
    first = audit(world, limit=7)
    assert first.summary is not None
    assert sum(first.summary.kinds.values()) == len(whole) == 34
    found = list(first.lines)
    while found[-1] != whole[-1]:
        part = audit(world, limit=7, place=Place(found[-1].at, found[-1].occurrence_id))
        assert part.summary is None
        assert len(part.lines) == 7 or part.lines[-1] == whole[-1]
        found += part.lines
    assert found == whole


def test_a_range_that_began_before_the_time_asked_for_counts_within_it(world: World) -> None:
    """U-07: from is in, to is out."""
    world.create()
    world.advance(minutes=10)
    world.resync()
    found = audit_trigger(world.database, GRACE, key("tick"), world.start + 4 * MINUTE, world.start + 7 * MINUTE, 100)
    assert [minute(world, line.at) for line in found.lines] == [4, 5, 6]
    assert {line.outcome for line in found.lines} == {"missed"}


def test_what_cannot_be_audited_is_refused(world: World) -> None:
    """U-07: time to come, and more than is judged in one call."""
    world.create(schedule={"every": "1s"})
    with pytest.raises(Invalid, match="from: lies not before"):
        audit_trigger(world.database, GRACE, key("tick"), world.start, None, 100)
    world.advance(days=365)
    with pytest.raises(Invalid, match="more than 1,000,000"):
        audit(world)


def test_the_audit_ends_now(world: World) -> None:
    """U-07: a `to` that lies ahead means now."""
    world.create(overlap="allow")
    live(world, 3)
    found = audit_trigger(world.database, GRACE, key("tick"), world.start, world.start + timedelta(days=9), 100)
    assert found.until == world.start + 3 * MINUTE
    assert len(found.lines) == 2

"""Why a trigger fired at a time, or did not, in sentences (U-03)."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import update

from reconcile.decide.admission import Pace
from reconcile.decide.attempt_ends import AttemptOutcome
from reconcile.decide.authority import Caller
from reconcile.decide.terms import offset
from reconcile.queries.explain import Explained, explain_trigger
from reconcile.report import wording
from reconcile.report.verdicts import Verdict
from reconcile.triggers.holds import freeze as freeze_project
from reconcile.triggers.holds import unfreeze
from revisions.errors import NotFound
from revisions.outcomes import HoldKind, OccurrenceOutcome, RunStatus, SkipReason
from revisions.store import holds, quarantines
from revisions.store.holds import Hold
from revisions.store.occurrences import Skip, record
from revisions.store.run_tables import runs
from revisions.store.tables import trigger_status
from tests.reconcile.queries.test_audit import forget, live
from tests.world import World, key

MINUTE = timedelta(minutes=1)
OUTCOMES = set(OccurrenceOutcome) - {OccurrenceOutcome.STARTED}
"""E-05, but for `started`."""


def ask(world: World, minute: float | None = None, name: str = "tick") -> Explained:
    at = None if minute is None else world.start + minute * MINUTE
    return explain_trigger(world.database, key(name), at)


def told(world: World, minute: float | None = None) -> tuple[str, str]:
    """The verdict and all sentences as one text."""
    explanation = ask(world, minute).explanation
    return explanation.verdict.value, " ".join(explanation.sentences)


def test_a_fired_occurrence_is_explained_with_its_run(world: World) -> None:
    """U-03: when it was made, what became of it, and by which revision."""
    world.create(overlap="allow")
    world.advance(minutes=1, seconds=3)
    world.resync()
    found = ask(world, 1)
    run = world.runs()[0]
    assert found.run == run
    assert found.explanation.sentences == (
        f"It fired at 2026-03-02T08:01:00Z: run {run.id} was made 3 s after that time.",
        "The run waits to be claimed.",
        "Revision 1 is in force, made by ann at 2026-03-02T08:00:00Z.",
        "See that a controller works on runs (`triggerctl up`) and that no limit is reached.",
    )


def test_a_failed_run_is_explained_with_its_error(world: World) -> None:
    """U-03: and where to look."""
    world.create(overlap="allow")
    live(world, 1)
    with world.database.write() as connection:
        connection.execute(update(runs).values(status="failed", error="exit status 3"))
    verdict, text = told(world, 1)
    assert verdict == "started"
    assert "The run failed, after its last attempt (exit status 3)." in text
    assert f"`triggerctl runs logs {world.runs()[0].id}` shows what it printed." in text


def test_without_a_time_the_newest_occurrence_is_meant(world: World) -> None:
    """U-03: the newest that its schedule names, decided or not."""
    world.create(overlap="allow")
    live(world, 3)
    world.advance(seconds=30)
    assert ask(world).instant.at == world.start + 3 * MINUTE
    world.advance(minutes=1)
    assert (ask(world).instant.at, told(world)[0]) == (world.start + 4 * MINUTE, "undecided")


def test_a_missed_range(world: World) -> None:
    """U-03, L-06: which range it is one of, and how it would have been otherwise."""
    world.create()
    world.advance(minutes=10)
    world.resync()
    verdict, text = told(world, 4)
    assert verdict == "skipped"
    assert text.startswith("It did not fire at 2026-03-02T08:04:00Z: its time passed while nothing could start it")
    assert "It is one of a range, from 2026-03-02T08:01:00Z to 2026-03-02T08:09:00Z." in text
    assert "`catchup: {policy: all}` would start each one later" in text
    assert ask(world, 4).skip == world.skips()[0]


def test_a_run_that_goes_on_keeps_it_out(world: World) -> None:
    """U-03, X-09."""
    world.create()
    live(world, 2)
    verdict, text = told(world, 2)
    assert verdict == "skipped"
    assert "a run of this trigger was still going on" in text
    assert "That was decided at 2026-03-02T08:02:00Z, as concurrency." in text
    assert "`triggerctl runs list --trigger acme/production/report/tick` shows what went on." in text


@pytest.mark.parametrize("outcome", sorted(OUTCOMES))
def test_every_outcome_has_its_words(world: World, outcome: OccurrenceOutcome) -> None:
    """U-03, E-05: why, with the reason that is recorded, and what to do next where there is anything to do."""
    world.create()
    at = world.start + MINUTE
    world.advance(minutes=1)
    skip = Skip(world.id("tick"), "every/2026-03-02T08:01:00Z", at, at, at, outcome, "so it is", 1, 1)
    with world.database.write() as connection:
        record(connection, [skip])
    verdict, text = told(world, 1)
    assert verdict == "skipped"
    assert f"as {outcome} (so it is)." in text
    assert wording.OUTCOMES[outcome].why in text
    assert "{" not in text.replace("{policy: all}", "")


def test_unknown_outcomes_and_statuses_are_shown_unchanged() -> None:
    """U-03, R-19: and the rate's own words stand for a missed start."""
    assert set(wording.OUTCOMES) == OUTCOMES
    assert wording.of_skip(OccurrenceOutcome("moved"), "").why == "its outcome is moved"
    assert wording.of_status(RunStatus("dreaming")).why == "is dreaming"
    assert "execution_qps" in wording.of_skip(OccurrenceOutcome.MISSED, SkipReason.RATE).following


def test_an_instant_that_the_schedule_does_not_name(world: World) -> None:
    """U-03: the nearest fires before and after."""
    world.create(schedule={"every": "10m"}, overlap="allow")
    world.advance(minutes=25)
    found = ask(world, 15)
    assert found.explanation.sentences == (
        "It did not fire at 2026-03-02T08:15:00Z: its schedule does not name that instant.",
        "The nearest before it is 2026-03-02T08:10:00Z.",
        "The nearest after it is 2026-03-02T08:20:00Z.",
        "Revision 1 is in force, made by ann at 2026-03-02T08:00:00Z.",
        f"`triggerctl explain {key('tick')} --at 2026-03-02T08:10:00Z` says what became of the one before.",
    )


@pytest.mark.parametrize(
    ("at", "missing"),
    [
        ("2026-03-29T00:30:00Z", "Between them, 2026-03-29T02:30:00 was left out (gap)."),
        ("2026-10-25T01:30:00Z", "Between them, 2026-10-25T02:30:00 was left out (fold)."),
    ],
)
def test_a_night_of_a_changed_clock(world: World, at: str, missing: str) -> None:
    """U-03, S-03, S-04: the wall time that did not exist, or that came a second time, is named."""
    world.create(schedule={"cron": "30 2 * * *", "timezone": "Europe/Berlin"})
    world.advance(days=300)
    found = explain_trigger(world.database, key("tick"), datetime.fromisoformat(at))
    assert found.explanation.verdict is Verdict.NOT_NAMED
    assert missing in found.explanation.sentences
    assert "(2026-" in found.explanation.sentences[1]  # what clocks there showed


def test_inactive_time(world: World) -> None:
    """U-03, R-20: who, when and why; when it ends by itself, or how it can be ended."""
    world.create()
    world.deactivate("tick", 1, "quiet", until=world.start + 5 * MINUTE)
    world.advance(minutes=2)
    verdict, text = told(world, 1)
    assert verdict == "inactive"
    assert text == (
        "It did not fire at 2026-03-02T08:01:00Z: it was inactive then, though its schedule names that instant."
        " Revision 2 is in force, made by ann at 2026-03-02T08:00:00Z (quiet)."
        " The pause ends by itself at 2026-03-02T08:05:00Z."
        " `triggerctl activate acme/production/report/tick` resumes it from then on."
    )
    world.activate("tick", 2)
    assert "That ended at 2026-03-02T08:02:00Z." in told(world, 1)[1]
    world.delete("tick", 3)
    world.advance(seconds=30)
    assert "it was deleted then" in told(world)[1]


def test_what_the_system_deactivated_is_explained(world: World) -> None:
    """U-03, X-07, S-15: failures and completion say what to do."""
    world.create(schedule={"at": "2026-03-02T08:01:00Z"})
    live(world, 1)
    world.advance(minutes=1)
    text = told(world)[1]
    assert "(its schedule had no fire left)" in text
    assert "Deploy it with a schedule that has one." in text
    world.create("other")
    with world.database.write() as connection:
        connection.execute(update(trigger_status).values(consecutive_failures=5))
    live(world, 1)
    world.advance(minutes=1)
    text = " ".join(ask(world, None, "other").explanation.sentences)
    assert "(too many runs failed in a row)" in text
    assert "`triggerctl activate acme/production/report/other`" in text


def test_before_it_was_and_after_now(world: World) -> None:
    """U-03: there was no trigger; or it is still to come."""
    world.create()
    assert told(world, -1)[0] == "not_there"
    verdict, text = told(world, 2)
    assert verdict == "ahead"
    assert text.startswith("2026-03-02T08:02:00Z is still to come: it will fire then")
    assert "the schedule does not name it" in told(world, 2.5)[1]


def test_undecided_where_no_loop_runs(world: World) -> None:
    """U-03: up to where it is decided, and to see that a loop runs."""
    world.create()
    world.advance(minutes=3)
    verdict, text = told(world, 2)
    assert verdict == "undecided"
    assert "Everything up to 2026-03-02T08:00:00Z is decided; no pass of the loop has looked since." in text
    assert "`triggerctl up`" in text


def test_undecided_in_a_backlog(world: World) -> None:
    """U-03, L-06: how far it has come."""
    world.create(catchup={"policy": "all"})
    world.advance(minutes=9)
    world.loop = world.another_loop_without_catch_up()
    world.resync()
    assert (
        "It waits in a backlog that is worked off oldest first and has come to 2026-03-02T08:00:00Z."
        in told(world, 3)[1]
    )
    assert told(world, 9)[0] == "started"


def test_undecided_for_want_of_a_token(world: World) -> None:
    """U-03, L-10: since when it waits for its turn."""
    world.create("first", overlap="allow")
    world.create(overlap="allow")
    world.loop = world.another_loop(Pace(execution_qps=0.01, execution_burst=1))
    world.advance(minutes=1)
    world.resync()
    texts = [" ".join(ask(world, 1, name).explanation.sentences) for name in ("first", "tick")]
    assert sum("It waits for its turn since 2026-03-02T08:01:00Z" in text for text in texts) == 1


def test_undecided_in_a_freeze_and_in_quarantine(world: World) -> None:
    """U-03, S-13, L-13: whose freeze, why and until when; what went wrong and when it is tried again."""
    world.create()
    world.advance(minutes=2)
    now = world.clock_now()
    with world.database.write() as connection:
        quarantines.put(connection, world.id("tick"), "a hand-edited row", now)
    assert "It could not be decided since 2026-03-02T08:02:00Z: a hand-edited row." in told(world, 1)[1]
    freeze = Hold("h", 1, HoldKind.FREEZE, "acme", None, None, now, now + MINUTE, None, "ops", "release", "ann", now)
    with world.database.write() as connection:
        holds.append(connection, freeze)
    text = told(world, 1)[1]
    assert "A freeze by ops is in force until 2026-03-02T08:03:00Z (release): nothing is decided meanwhile." in text


def test_undecided_where_a_run_asked_for_another_time(world: World) -> None:
    """U-03, S-08."""
    world.create()
    world.advance(minutes=2)
    with world.database.write() as connection:
        connection.execute(update(trigger_status).values(asked_fire_at=world.start + 9 * MINUTE))
    assert "A run asked for the next fire at 2026-03-02T08:09:00Z, in place of the schedule." in told(world, 1)[1]


def test_what_is_missing_is_called_so(world: World) -> None:
    """U-03: neither run nor skip, though it is decided."""
    world.create(overlap="allow")
    live(world, 3)
    forget(world, runs, 2)
    verdict, text = told(world, 2)
    assert verdict == "missing"
    assert "nothing says why" in text
    assert "triggerctl audit acme/production/report/tick --from 2026-03-02T08:02:00Z" in text


def test_the_revision_in_force_then_is_named(world: World) -> None:
    """U-03: not the one in force now."""
    world.create(overlap="allow")
    live(world, 2)
    world.update("tick", 1, overlap="allow", schedule={"every": "5m"})
    found = ask(world, 1)
    assert found.instant.period is not None
    assert found.instant.period.trigger.revision == 1
    assert "Revision 1 was in force" in " ".join(found.explanation.sentences)


def test_a_trigger_that_never_was_is_not_found(world: World) -> None:
    """U-03."""
    with pytest.raises(NotFound):
        ask(world, 1, "none")


def test_what_is_spread_waits_for_its_place(world: World) -> None:
    """U-03, S-12: before its place it says when it fires; unasked, it tells of the newest that had its place."""
    world.create(overlap="allow", schedule={"every": "1h", "spread": "30m"})
    late = offset(timedelta(minutes=30), str(key("tick")))
    world.advance(hours=1)
    world.resync()
    text = told(world, 60)[1]
    assert f"`spread` gives this trigger its place {late.total_seconds():.0f} s after its nominal times." in text
    world.advance(seconds=late.total_seconds())
    world.resync()
    assert told(world)[1].startswith("It fired at 2026-03-02T09:00:00Z")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"overlap": "queue_all"}, "the end of run {first} of the same trigger (overlap queue_all)"),
        ({"serialize_key": "k"}, "the end of run {first}, which holds its serialize_key 'k'"),
        ({"concurrency": {"limit": 1}}, "one of the 1 runs of its trigger to end (concurrency.limit 1)"),
        ({"task_version": "v2"}, "one of the 1 runs of its task to end (its concurrency.limit 1)"),
        (
            {"overlap": "queue_all", "limits": {"max_cost": 1, "estimate": 0.1}},
            "the next period of its budget, which begins at 2026-04-01T00:00:00Z",
        ),
    ],
    ids=["queue", "key", "trigger", "task", "budget"],
)
def test_the_reason_a_run_waits_is_reported(world: World, spec: dict[str, Any], words: str) -> None:
    """U-03, X-04, X-08: the run before it, the key's holder, the limit that is reached, or the budget."""
    world.register("v2", concurrency={"limit": 1})
    world.create(**{"overlap": "allow", **spec})
    live(world, 2)
    (first,) = world.claim()
    if "limits" in spec:
        world.settle(first, cost=5)
    assert f"The run is pending: it waits for {words.format(first=first.id)}." in told(world, 2)[1]


def test_a_run_between_two_attempts_says_when_the_next_comes(world: World) -> None:
    """U-03, X-07: after its backoff."""
    world.create()
    live(world, 1)
    world.finish(AttemptOutcome.FAILED)
    assert "it waits for its next attempt, at 2026-03-02T08:01:02Z" in told(world, 1)[1]


def freeze(world: World, **span: float) -> None:
    """Of the project, by ann, from now on for a span."""
    freeze_project(world.database, world.observations, "acme", None, Caller("ann", "release"))
    world.advance(**span)
    unfreeze(world.database, world.observations, "acme", Caller("ann"))


def test_a_run_made_late_says_which_freeze_held_it(world: World) -> None:
    """U-03, S-13: with its times, after the fact; one that was made in time says nothing of it."""
    world.create(overlap="allow")
    world.advance(seconds=41)
    freeze(world, seconds=50)
    world.resync()
    freeze(world, seconds=1)
    found = " ".join(ask(world, 1).explanation.sentences)
    assert "was made 31 s after that time." in found
    assert "A freeze by ann was in force from 2026-03-02T08:00:41Z to 2026-03-02T08:01:31Z (release)." in found
    assert found.count("A freeze") == 1
    world.advance(seconds=29)  # 08:02:01
    world.resync()
    assert "freeze" not in told(world, 2)[1]


def test_a_skip_decided_late_says_which_freeze_held_it(world: World) -> None:
    """U-03, S-13: what was missed because of it too."""
    world.create()
    world.advance(seconds=41)
    freeze(world, minutes=5)
    world.resync()
    assert told(world, 1)[0] == "skipped"
    assert "A freeze by ann was in force from 2026-03-02T08:00:41Z to 2026-03-02T08:05:41Z" in told(world, 1)[1]


def test_a_run_that_began_late_says_so(world: World) -> None:
    """U-03: how late, and that nothing says why; a freeze is known of."""
    world.create(overlap="allow")
    live(world, 1)
    world.advance(seconds=2)
    world.claim()
    assert "It began" not in told(world, 1)[1]
    live(world, 1)
    world.advance(seconds=40)
    world.claim()
    text = told(world, 2)[1]
    assert "It began 40 s after it was made, at 2026-03-02T08:02:42Z. What it waited for is not recorded" in text
    live(world, 1)
    freeze(world, seconds=30)
    world.claim()
    text = told(world, 3)[1]
    assert "It began 30 s after it was made" in text
    assert "A freeze by ann was in force" in text
    assert "not recorded" not in text


def test_a_run_that_was_approved_says_by_whom_and_when(world: World) -> None:
    """U-03, X-14: and when it began after that."""
    world.create(requires_approval=True)
    live(world, 1)
    world.advance(seconds=50)
    world.approve(world.runs()[0].id, Caller("eve"))
    world.advance(seconds=7)
    world.claim()
    text = told(world, 1)[1]
    assert "It waited 50 s for an approval, which eve gave at 2026-03-02T08:01:50Z." in text
    assert "It began 7 s after it was approved, at 2026-03-02T08:01:57Z." in text


def test_a_run_by_hand_is_explained_where_it_is_the_newest(world: World) -> None:
    """U-03, X-11: who asked for it and how it stands, until an occurrence of the schedule is newer."""
    world.create(schedule={"every": "10m"}, overlap="allow", retry={"max_attempts": 1})
    live(world, 12)
    world.finish()
    run = world.fire(key("tick"), {}, Caller("eve"))
    assert ask(world).run == run
    assert told(world)[0] == "started"
    assert told(world)[1].startswith(f"Run {run.id} was made by eve at 2026-03-02T08:12:00Z (manual).")
    (claimed,) = world.claim()
    world.settle(claimed, AttemptOutcome.FAILED)
    assert "The run failed, after its last attempt" in told(world)[1]
    assert told(world, 10)[1].startswith("It fired at 2026-03-02T08:10:00Z")
    live(world, 9)
    assert told(world)[1].startswith("It fired at 2026-03-02T08:20:00Z")


def test_a_run_by_hand_says_what_it_waits_for(world: World) -> None:
    """U-03, X-04: behind a key; also while the schedule has gone on."""
    world.create("holder", serialize_key="k", overlap="allow")
    live(world, 1)
    (holder,) = world.claim()
    world.create(schedule={"every": "1h"}, serialize_key="k")
    world.fire(key("tick"), {}, Caller("eve"))
    assert f"it waits for the end of run {holder.id}, which holds its serialize_key 'k'" in told(world)[1]
    world.advance(minutes=60)
    assert f"it waits for the end of run {holder.id}" in told(world)[1]


def test_a_run_by_hand_of_an_inactive_trigger(world: World) -> None:
    """U-03: told until somebody changes the trigger."""
    world.create()
    world.deactivate("tick", 1)
    world.advance(minutes=1)
    run = world.fire(key("tick"), {}, Caller("eve"))
    assert ask(world).run == run
    (claimed,) = world.claim()
    world.settle(claimed)
    assert "The run succeeded." in told(world)[1]
    world.advance(minutes=1)
    world.activate("tick", 2)
    world.deactivate("tick", 3)
    assert told(world)[0] == "inactive"


def test_a_pending_run_waits_for_the_end_of_a_freeze(world: World) -> None:
    """U-03, S-13: nothing is claimed meanwhile."""
    world.create()
    live(world, 1)
    freeze_project(world.database, world.observations, "acme", None, Caller("ann", "release"))
    assert world.claim() == []
    assert "The run is pending: it waits for the end of the freeze by ann." in told(world, 1)[1]


def test_a_skip_by_max_runs_is_explained(world: World) -> None:
    """U-03, X-08: that what went on may be all that is still to succeed."""
    world.create(overlap="allow", limits={"max_runs": 1})
    live(world, 2)
    assert "the runs that went on were all that `limits.max_runs` still lets succeed" in told(world, 2)[1]


def test_a_persons_word_is_not_taken_for_the_systems(world: World) -> None:
    """U-03, X-08: whoever pauses with the reason `budget` is told that it is a pause like any other."""
    world.create()
    world.deactivate("tick", 1, "budget")
    live(world, 1)
    assert "`triggerctl activate acme/production/report/tick` resumes it from then on" in told(world, 1)[1]

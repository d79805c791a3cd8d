"""How `doctor` judges what it is told, one check at a time."""

from datetime import UTC, datetime, timedelta

import pytest

from reconcile.report import installation_checks, trigger_checks
from reconcile.report.installation_checks import Check, Level
from reconcile.report.trigger_checks import ActiveHold, QuarantinedTrigger
from revisions.ids import TriggerKey
from revisions.outcomes import HoldKind

NOW = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
OK, WARNING, FAULT = Level.OK, Level.WARNING, Level.FAULT


def tick(name: str = "tick") -> TriggerKey:
    return TriggerKey("acme", "production", "report", name)


def freeze(kind: HoldKind = HoldKind.FREEZE, until: datetime | None = None) -> ActiveHold:
    return ActiveHold(kind, "project acme", until, "ann", "stocktaking")


JUDGED: dict[str, tuple[Check, Level, str]] = {
    "SQLite": (
        installation_checks.database("sqlite:///x.db", "SQLite", "3.40", None),
        OK,
        "sqlite:///x.db, SQLite 3.40",
    ),
    "PostgreSQL 17": (installation_checks.database("here", "PostgreSQL", "17.2", 17), OK, "PostgreSQL 17.2"),
    "PostgreSQL 16": (
        installation_checks.database("here", "PostgreSQL", "16.9", 16),
        WARNING,
        "no transaction_timeout",
    ),
    "this release's schema": (installation_checks.schema("0003", "0003"), OK, "0003"),
    "a newer schema that can be read": (
        installation_checks.schema("0004", "0003"),
        OK,
        "0004, newer than this release's 0003",
    ),
    "guards that stand": (installation_checks.guards([]), OK, "cannot be updated"),
    "guards that are missing": (
        installation_checks.guards(["a_refused", "b_refused"]),
        FAULT,
        "a_refused, b_refused missing",
    ),
    "one clock": (installation_checks.clock(None), OK, "this machine's clock decides"),
    "clocks that agree": (installation_checks.clock(-0.9), OK, "agree"),
    "a clock ahead": (installation_checks.clock(1.5), WARNING, "1.5 s ahead of"),
    "a clock behind": (installation_checks.clock(-59), WARNING, "59 s behind"),
    "a clock that is wrong": (installation_checks.clock(-7200), FAULT, "2 h behind"),
    "one tz database": (installation_checks.tzdata("2026f", ["2026f"]), OK, "2026f everywhere"),
    "no replica's tz database": (installation_checks.tzdata("2026f", []), OK, "2026f everywhere"),
    "a mixture of tz databases": (
        installation_checks.tzdata("2026f", {"2026f", "2026a"}),
        WARNING,
        "2026f, replicas with 2026a",
    ),
    "another tz database everywhere": (installation_checks.tzdata("2026f", {"2026a"}), WARNING, "2026a"),
    "no replica": (installation_checks.replicas([]), WARNING, "nothing is scheduled"),
    "one replica": (installation_checks.replicas(["1.0"]), OK, "1 runs the loop, of release 1.0"),
    "replicas of two releases": (
        installation_checks.replicas(["1.1", "1.0", "1.0"]),
        OK,
        "3 run the loop, of release 1.0, 1.1",
    ),
    "nothing in quarantine": (trigger_checks.quarantine([]), OK, "every trigger can be decided"),
    "a trigger in quarantine": (
        trigger_checks.quarantine([QuarantinedTrigger(tick(), NOW, NOW + timedelta(hours=1), "no unit\n'fortnight'")]),
        FAULT,
        "1 trigger cannot be decided: acme/production/report/tick since 2026-03-02T08:00:00Z (no unit 'fortnight')",
    ),
    "no watermark ahead": (trigger_checks.watermarks([]), OK, "none"),
    "watermarks ahead": (
        trigger_checks.watermarks([(tick("a"), NOW), (tick("b"), NOW)]),
        FAULT,
        "2 watermarks are ahead of now, and nothing fires until then: acme/production/report/a at 2026-03-02T08:00:00Z",
    ),
    "no backlog": (trigger_checks.backlogs(0, [], is_all=True), OK, "nothing waits"),
    "backlogs": (
        trigger_checks.backlogs(1240, [tick()], is_all=True),
        OK,
        "1,240 occurrences of 1 trigger to catch up",
    ),
    "long backlogs": (trigger_checks.backlogs(10_000, [tick()], is_all=False), OK, "more than 10,000 occurrences"),
    "no hold": (trigger_checks.holds([]), OK, "no freeze or blackout"),
    "a freeze": (
        trigger_checks.holds([freeze()]),
        WARNING,
        "freeze of project acme until it is lifted, by ann: stocktaking",
    ),
    "a blackout": (
        trigger_checks.holds([freeze(HoldKind.BLACKOUT, NOW)]),
        OK,
        "blackout of project acme until 2026-03-02T08",
    ),
    "a rate that fits": (trigger_checks.rate({tick(): 7.0}, 10.0), OK, "7 starts a second, 70% of execution_qps (10)"),
    "a rate without limit": (trigger_checks.rate({tick(): 700.0}, 0), OK, "there is no limit"),
    "a rate that is too high": (
        trigger_checks.rate({tick("a"): 1.0, tick("b"): 6.25, tick("c"): 0.5, tick("d"): 0.25}, 10.0),
        WARNING,
        "80% of execution_qps (10); most by acme/production/report/b (6.25), acme/production/report/a (1), "
        "acme/production/report/c (0.5)",
    ),
    "an empty queue": (trigger_checks.queue(0, None, NOW), OK, "no run waits for longer than 10 min"),
    "runs that wait": (trigger_checks.queue(3, NOW - timedelta(hours=2), NOW), WARNING, "3 runs have waited"),
    "no failures": (trigger_checks.failures([], []), OK, "no trigger was deactivated within 7 days"),
    "failures": (
        trigger_checks.failures([tick("a")], [tick("b")]),
        OK,
        "at the failure limit: acme/production/report/a; deactivated after failures within 7 days: ",
    ),
}


@pytest.mark.parametrize("case", JUDGED)
def test_each_fact_is_judged(case: str) -> None:
    """O-05, R-02, S-14, L-12, L-13, L-14, L-17, L-18: how it is in words, and what to do wherever it is not well."""
    check, level, words = JUDGED[case]
    assert (check.level, check.ok) == (level, level is not FAULT)
    assert words in check.detail
    assert bool(check.hint) == (level is not OK)


def test_of_many_only_some_are_named() -> None:
    """O-05: a line stays a line."""
    assert installation_checks.named(range(7)) == "0, 1, 2, 3, 4 and 2 more"
    assert installation_checks.named(range(5)) == "0, 1, 2, 3, 4"


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.25, "0.2 s"), (90, "90 s"), (720, "12 min"), (108_000, "30 h"), (864_000, "10 days")]
)
def test_spans_in_words(seconds: float, words: str) -> None:
    """U-01: in the unit that says most."""
    assert installation_checks.span(seconds) == words

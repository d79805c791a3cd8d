"""How `doctor` judges what it is told, one check at a time."""

from collections.abc import Callable
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


JUDGED: dict[str, tuple[Callable[[], Check], Level, str]] = {
    "SQLite": (
        lambda: installation_checks.database("sqlite:///x.db", "SQLite", "3.40", None),
        OK,
        "sqlite:///x.db, SQLite 3.40",
    ),
    "PostgreSQL 17": (lambda: installation_checks.database("here", "PostgreSQL", "17.2", 17), OK, "PostgreSQL 17.2"),
    "PostgreSQL 16": (
        lambda: installation_checks.database("here", "PostgreSQL", "16.9", 16),
        WARNING,
        "no transaction_timeout",
    ),
    "no pooler": (lambda: installation_checks.pooler(False), OK, "none between this process and the database"),
    "a pooler": (lambda: installation_checks.pooler(True), OK, "one is before the database"),
    "a database without notices": (lambda: installation_checks.notices(None, "x"), OK, "this database has none"),
    "notices that are heard": (lambda: installation_checks.notices("heard", "x"), OK, "heard at x"),
    "notices behind a pooler": (lambda: installation_checks.notices("pooled", "x"), WARNING, "x leads to a pooler"),
    "notices that cannot be reached": (
        lambda: installation_checks.notices("unreachable", "x"),
        WARNING,
        "x cannot be reached",
    ),
    "notices of another database": (
        lambda: installation_checks.notices("elsewhere", "x"),
        WARNING,
        "x is another database",
    ),
    "a database without roles": (
        lambda: installation_checks.permissions(None),
        OK,
        "who may write the file may do everything",
    ),
    "a role that may do enough": (lambda: installation_checks.permissions("app"), OK, "app may do what is needed"),
    "a superuser": (lambda: installation_checks.permissions("app", is_superuser=True), WARNING, "app is a superuser"),
    "a role that lacks something": (
        lambda: installation_checks.permissions("app", is_superuser=True, lacking=["INSERT on runs"]),
        FAULT,
        "app lacks INSERT on runs",
    ),
    "launchers that work": (lambda: installation_checks.launchers([], 0), OK, "all that registered tasks need is here"),
    "one system that answers": (
        lambda: installation_checks.launchers([], 1),
        OK,
        "here, and 1 system that they go to answers",
    ),
    "systems that answer": (
        lambda: installation_checks.launchers([], 2, 1),
        OK,
        "and 2 systems that they go to answer; 1 more was not asked",
    ),
    "systems that were not asked": (
        lambda: installation_checks.launchers([], 0, 2),
        OK,
        "is here; 2 more were not asked",
    ),
    "launchers that do not": (
        lambda: installation_checks.launchers([("http", "no route"), ("celery", "not installed")], 3),
        WARNING,
        "cannot be used by this process: celery (not installed), http (no route)",
    ),
    "this release's schema": (lambda: installation_checks.schema("0003", "0003"), OK, "0003"),
    "a newer schema that can be read": (
        lambda: installation_checks.schema("0004", "0003"),
        OK,
        "0004, newer than this release's 0003",
    ),
    "guards that stand": (lambda: installation_checks.guards([]), OK, "cannot be updated"),
    "guards that are missing": (
        lambda: installation_checks.guards(["a_refused", "b_refused"]),
        FAULT,
        "a_refused, b_refused missing",
    ),
    "one clock": (lambda: installation_checks.clock(None), OK, "this machine's clock decides"),
    "clocks that agree": (lambda: installation_checks.clock(-0.9), OK, "agree"),
    "a clock ahead": (lambda: installation_checks.clock(1.5), WARNING, "1.5 s ahead of"),
    "a clock behind": (lambda: installation_checks.clock(-59), WARNING, "59 s behind"),
    "a clock that is wrong": (lambda: installation_checks.clock(-7200), FAULT, "2 h behind"),
    "one tz database": (lambda: installation_checks.tzdata("2026f", ["2026f"]), OK, "2026f everywhere"),
    "no replica's tz database": (lambda: installation_checks.tzdata("2026f", []), OK, "2026f everywhere"),
    "a mixture of tz databases": (
        lambda: installation_checks.tzdata("2026f", {"2026f", "2026a"}),
        WARNING,
        "2026f, replicas with 2026a",
    ),
    "another tz database everywhere": (lambda: installation_checks.tzdata("2026f", {"2026a"}), WARNING, "2026a"),
    "no replica": (lambda: installation_checks.replicas([]), WARNING, "nothing is scheduled"),
    "one replica": (lambda: installation_checks.replicas(["1.0"]), OK, "1 runs the loop, of release 1.0"),
    "replicas of two releases": (
        lambda: installation_checks.replicas(["1.1", "1.0", "1.0"]),
        OK,
        "3 run the loop, of release 1.0, 1.1",
    ),
    "nothing in quarantine": (lambda: trigger_checks.quarantine([]), OK, "every trigger can be decided"),
    "a trigger in quarantine": (
        lambda: trigger_checks.quarantine(
            [QuarantinedTrigger(tick(), NOW, NOW + timedelta(hours=1), "no unit\n'fortnight'")]
        ),
        FAULT,
        "1 trigger cannot be decided: acme/production/report/tick since 2026-03-02T08:00:00Z (no unit 'fortnight')",
    ),
    "no watermark ahead": (lambda: trigger_checks.watermarks([]), OK, "none"),
    "watermarks ahead": (
        lambda: trigger_checks.watermarks([(tick("a"), NOW), (tick("b"), NOW)]),
        FAULT,
        "2 watermarks are ahead of now, and nothing fires until then: acme/production/report/a at 2026-03-02T08:00:00Z",
    ),
    "no backlog": (lambda: trigger_checks.backlogs(0, [], is_all=True), OK, "nothing waits"),
    "backlogs": (
        lambda: trigger_checks.backlogs(1240, [tick()], is_all=True),
        OK,
        "1,240 occurrences of 1 trigger to catch up",
    ),
    "long backlogs": (
        lambda: trigger_checks.backlogs(10_000, [tick()], is_all=False),
        OK,
        "more than 10,000 occurrences",
    ),
    "no hold": (lambda: trigger_checks.holds([]), OK, "no freeze or blackout"),
    "a freeze": (
        lambda: trigger_checks.holds([freeze()]),
        WARNING,
        "freeze of project acme until it is lifted, by ann: stocktaking",
    ),
    "a blackout": (
        lambda: trigger_checks.holds([freeze(HoldKind.BLACKOUT, NOW)]),
        OK,
        "blackout of project acme until 2026-03-02T08",
    ),
    "a rate that fits": (
        lambda: trigger_checks.rate({tick(): 7.0}, 10.0),
        OK,
        "7 starts a second, 70% of execution_qps (10)",
    ),
    "a rate without limit": (lambda: trigger_checks.rate({tick(): 700.0}, 0), OK, "there is no limit"),
    "a rate that is too high": (
        lambda: trigger_checks.rate({tick("a"): 1.0, tick("b"): 6.25, tick("c"): 0.5, tick("d"): 0.25}, 10.0),
        WARNING,
        "80% of execution_qps (10); most by acme/production/report/b (6.25), acme/production/report/a (1), "
        "acme/production/report/c (0.5)",
    ),
    "an empty queue": (lambda: trigger_checks.queue(0, None, NOW), OK, "no run waits for longer than 10 min"),
    "runs that wait": (lambda: trigger_checks.queue(3, NOW - timedelta(hours=2), NOW), WARNING, "3 runs have waited"),
    "one run that waits": (
        lambda: trigger_checks.queue(1, NOW - timedelta(hours=2), NOW),
        WARNING,
        "1 run has waited for more",
    ),
    "no approvals": (
        lambda: trigger_checks.approvals(0, None, NOW),
        OK,
        "no run waits for longer than 24 h for an approval",
    ),
    "one approval": (
        lambda: trigger_checks.approvals(1, NOW - timedelta(hours=30), NOW),
        WARNING,
        "1 run has waited for more than 24 h",
    ),
    "approvals": (
        lambda: trigger_checks.approvals(2, NOW - timedelta(hours=60), NOW),
        WARNING,
        "the oldest for 2 days",
    ),
    "authors that may start": (lambda: trigger_checks.authors({}), OK, "every active trigger's author may start it"),
    "authors that may not": (
        lambda: trigger_checks.authors({"bob": [tick("b")], "ann": [tick("a"), tick("c")]}),
        WARNING,
        "3 active triggers may not start for want of an author: of ann: acme/production/report/a, "
        "acme/production/report/c; of bob: acme/production/report/b",
    ),
    "one watermark ahead": (lambda: trigger_checks.watermarks([(tick(), NOW)]), FAULT, "1 watermark is ahead of now"),
    "one backlog": (
        lambda: trigger_checks.backlogs(1, [tick()], is_all=True),
        OK,
        "1 occurrence of 1 trigger to catch up: acme",
    ),
    "a rate of just 70 percent": (
        lambda: trigger_checks.rate({tick(): 0.0007}, 0.001),
        OK,
        "70% of execution_qps (0.001)",
    ),
    "no deadline missed": (lambda: trigger_checks.deadlines([]), OK, "none was missed within 7 days"),
    "a deadline missed": (
        lambda: trigger_checks.deadlines([(tick(), NOW)]),
        WARNING,
        "missed within 7 days by 1 trigger: acme/production/report/tick at 2026-03-02T08:00:00Z",
    ),
    "no budget near its end": (
        lambda: trigger_checks.budgets([]),
        OK,
        "no trigger has used more than 90% of its budget",
    ),
    "a budget near its end": (
        lambda: trigger_checks.budgets([(tick(), 0.95)]),
        OK,
        "more than 90% is used by 1 trigger: acme/production/report/tick (95%)",
    ),
    "no failures": (lambda: trigger_checks.failures([], []), OK, "no trigger was deactivated within 7 days"),
    "failures": (
        lambda: trigger_checks.failures([tick("a")], [tick("b")]),
        OK,
        "at the failure limit: acme/production/report/a; deactivated after failures within 7 days: ",
    ),
}


NAMES = {
    "database": ["SQLite", "PostgreSQL 17", "PostgreSQL 16"],
    "pooler": ["no pooler", "a pooler"],
    "notices": ["a database without notices", "notices that are heard", "notices behind a pooler"],
    "permissions": [
        "a database without roles",
        "a role that may do enough",
        "a superuser",
        "a role that lacks something",
    ],
    "launchers": ["launchers that work", "launchers that do not"],
    "schema": ["this release's schema", "a newer schema that can be read"],
    "guards": ["guards that stand", "guards that are missing"],
    "clock": ["one clock", "clocks that agree", "a clock ahead", "a clock that is wrong"],
    "tzdata": ["one tz database", "a mixture of tz databases"],
    "replicas": ["no replica", "one replica"],
    "quarantine": ["nothing in quarantine", "a trigger in quarantine"],
    "watermarks": ["no watermark ahead", "watermarks ahead"],
    "backlogs": ["no backlog", "backlogs"],
    "holds": ["no hold", "a freeze", "a blackout"],
    "authors": ["authors that may start", "authors that may not"],
    "rate": ["a rate that fits", "a rate without limit", "a rate that is too high"],
    "queue": ["an empty queue", "runs that wait"],
    "approvals": ["no approvals", "approvals"],
    "failures": ["failures", "no failures"],
    "deadlines": ["no deadline missed", "a deadline missed"],
    "budgets": ["no budget near its end", "a budget near its end"],
}


@pytest.mark.parametrize("name", NAMES)
def test_each_check_has_its_name(name: str) -> None:
    """O-05: by which programs find it, however it was judged."""
    assert {JUDGED[case][0]().name for case in NAMES[name]} == {name}


@pytest.mark.parametrize("case", JUDGED)
def test_each_fact_is_judged(case: str) -> None:
    """O-05, R-02, S-14, L-12, L-13, L-14, L-17, L-18: how it is in words, and what to do wherever it is not well."""
    judge, level, words = JUDGED[case]
    check = judge()
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


def test_numbers_agree_with_what_they_count() -> None:
    """U-01."""
    assert [installation_checks.many(number, "run") for number in (0, 1, 2, 1_000)] == [
        "0 runs",
        "1 run",
        "2 runs",
        "1,000 runs",
    ]


@pytest.mark.parametrize(
    ("offset", "level"),
    [(0, OK), (1, OK), (1.1, WARNING), (60, WARNING), (60.1, FAULT), (-1, OK), (-60.1, FAULT)],
)
def test_a_clock_may_be_a_second_off(offset: float, level: Level) -> None:
    """O-05, L-12: a minute is a fault."""
    assert installation_checks.clock(offset).level is level


def test_a_long_error_is_cut() -> None:
    """O-05: on one line, of 200 characters."""
    apart = [QuarantinedTrigger("t", NOW, NOW, "x" * 200), QuarantinedTrigger("u", NOW, NOW, "y" * 201)]
    detail = trigger_checks.quarantine(apart).detail
    assert f"({'x' * 200})" in detail
    assert f"({'y' * 200}…)" in detail

"""Checks of a whole installation, shown by `doctor` (O-05)."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from time import monotonic

from reconcile.decide.admission import Pace
from reconcile.loop.replica import MISSED_BEATS
from reconcile.loop.scanner import worn_triggers
from reconcile.loop.surveys import PART, read_demand
from reconcile.plugins import System, launchers
from reconcile.report import installation_checks, trigger_checks
from reconcile.report.installation_checks import Check, fault
from reconcile.report.trigger_checks import LATELY, NEAR_END, PATIENCE, UNANSWERED, ActiveHold, QuarantinedTrigger
from reconcile.schedule.fires import count
from reconcile.schedule.zones import TZDATA_VERSION
from reconcile.triggers import credentials, spending
from reconcile.triggers.trigger_calendars import read_terms
from revisions.clock import Clock
from revisions.errors import Invalid, Unavailable
from revisions.history.triggers import StopReason
from revisions.ids import TriggerKey
from revisions.outcomes import HoldKind
from revisions.spec.stored import readable_task
from revisions.store import backlogs as backlog_store
from revisions.store import counts, expectations, holds, installations, quarantines, schema
from revisions.store import status as status_store
from revisions.store import tasks as task_store
from revisions.store import triggers as trigger_store
from revisions.store.database import Connection, Database, ServerClock
from revisions.store.holds import Hold
from revisions.store.notices import check_hearing
from revisions.store.schema import DatabaseRights
from revisions.store.tables import SCHEMA

SYSTEM_TIMEOUT_SECONDS = 8.0
"""Total time for all systems, whatever their client libraries would wait."""
MAX_SYSTEMS = 50
"""Maximum number of systems asked; each needs a thread."""
MOST_COUNTED = 10_000
"""Maximum number of backlog occurrences counted, to bound the duration."""

UNREACHED = (
    "see that it runs, that --database-url names it, and that role and password (PGPASSWORD, ~/.pgpass) are right"
)

Named = Mapping[str, TriggerKey]


def examine(database: Database, pace: Pace, host: Clock, listen_url: str | None = None) -> list[Check]:
    """Run all checks, or only those that are possible when the database is unusable or not readable.

    `host` is this machine's clock; `listen_url` is the address for notices if it is not the database's. Raises
    Unavailable when the database is lost during the checks.
    """
    try:
        rights = _rights(database)
    except Unavailable as error:
        return [fault("database", error.detail, _way(error, UNREACHED))]
    if rights and rights.is_blind:
        return [*_server(database, listen_url), _permissions(rights)]
    try:
        found = database.schema()
        database.check_schema()
    except Unavailable as error:
        return [
            *_server(database, listen_url),
            fault("schema", error.detail, _way(error, "use a release that goes with it")),
        ]
    return [
        *_server(database, listen_url),
        installation_checks.schema(found, SCHEMA),
        _permissions(rights),
        *_installation(database, pace, host),
        *_triggers(database, pace),
        trigger_checks.rate(demand_by_trigger(database), pace.execution_qps),
    ]


def demand_by_trigger(database: Database) -> dict[TriggerKey | str, float]:
    """Return the starts per second of each active trigger, as the mean over the next day (L-18)."""
    asked = read_demand(database)
    with database.read() as connection:
        named = trigger_store.keys(connection, asked)
    return {named.get(trigger_id, trigger_id): each for trigger_id, each in asked.items()}


def _rights(database: Database) -> DatabaseRights | None:
    with database.read() as connection:
        return schema.rights(connection)


def _server(database: Database, listen_url: str | None) -> Iterator[Check]:
    with database.read() as connection:
        server = schema.describe(connection)
    yield installation_checks.database(str(database), server.name, server.version, server.major)
    yield installation_checks.pooler(server.is_pooled)
    heard = None if database.is_sqlite else check_hearing(database, listen_url)
    yield installation_checks.notices(heard, "listen_url" if listen_url else "database_url")


def _installation(database: Database, pace: Pace, host: Clock) -> Iterator[Check]:
    with database.read() as connection:
        yield installation_checks.guards(schema.missing_guards(connection))
        yield installation_checks.clock(_offset(database, connection, host))
        now = database.clock.now(connection)
        there = installations.replicas_seen_since(connection, now - MISSED_BEATS * pace.resync_interval)
        yield installation_checks.tzdata(TZDATA_VERSION, {row.tzdata for row in there})
        yield installation_checks.replicas([row.version for row in there])
        specs = task_store.specs_in_use(connection)
    yield _launchers(specs)  # beyond the transaction, for a system elsewhere may take its time


def _offset(database: Database, connection: Connection, host: Clock) -> float | None:
    """Return the seconds by which this machine's clock is ahead of the database's, None if they are the same clock."""
    if not isinstance(database.clock, ServerClock):
        return None
    before = host.now(connection)
    there = database.clock.now(connection)
    after = host.now(connection)
    return (before + (after - before) / 2 - there).total_seconds()


def _triggers(database: Database, pace: Pace) -> Iterator[Check]:
    with database.read() as connection:
        now = database.clock.now(connection)
        yield _quarantine(connection)
        ahead = status_store.watermarks_after(connection, now + 2 * pace.resync_interval)
        named = trigger_store.keys(connection, [trigger_id for trigger_id, _ in ahead])
        yield trigger_checks.watermarks([(named.get(trigger_id, trigger_id), at) for trigger_id, at in ahead])
        yield _backlogs(connection)
        yield _holds(connection, now)
        yield trigger_checks.authors(credentials.triggers_without_rights(connection, now))
        yield trigger_checks.queue(*counts.pending_since(connection, now - PATIENCE), now)
        yield trigger_checks.approvals(*counts.parked_since(connection, now - UNANSWERED), now)
        yield _failures(connection, now)
        yield _deadlines(connection, now)
        yield _budgets(connection, now)


def _permissions(rights: DatabaseRights | None) -> Check:
    if rights is None:
        return installation_checks.permissions(None)
    return installation_checks.permissions(rights.role, rights.is_superuser, rights.lacking)


def _launchers(specs: Iterable[str]) -> Check:
    """Check that the launchers of these tasks can be used here and that their remote systems answer."""
    faults: dict[str, str] = {}
    found: dict[System, str] = {}
    for spec in map(readable_task, specs):
        kind = spec.launcher
        launcher = launchers().get(kind)
        if launcher is None:
            faults.setdefault(kind, "this release has no such launcher")
            continue
        try:
            system = launcher.system(launcher.read(spec.block))
        except Invalid as error:
            faults.setdefault(kind, error.errors[0].message)
        else:
            found |= {system: kind} if system else {}
    asked = dict(islice(found.items(), MAX_SYSTEMS))
    return installation_checks.launchers([*faults.items(), *troubles(asked)], len(asked), len(found) - len(asked))


def _quarantine(connection: Connection) -> Check:
    apart = quarantines.every(connection)
    named = trigger_store.keys(connection, [one.trigger_id for one in apart])
    return trigger_checks.quarantine(
        [
            QuarantinedTrigger(named.get(one.trigger_id, one.trigger_id), one.since, one.until_at, one.error)
            for one in apart
        ]
    )


def _backlogs(connection: Connection) -> Check:
    ids = backlog_store.trigger_ids(connection)
    counted = 0
    for number in _left(connection, ids):
        counted += number
        if counted > MOST_COUNTED:
            break
    named = trigger_store.keys(connection, ids)
    triggers = [named.get(trigger_id, trigger_id) for trigger_id in ids]
    return trigger_checks.backlogs(min(counted, MOST_COUNTED), triggers, is_all=counted <= MOST_COUNTED)


def _left(connection: Connection, ids: list[str]) -> Iterator[int]:
    """Yield the size of each backlog, counted to slightly over the limit. Unreadable triggers are left out."""
    for trigger_id in ids:
        trigger = trigger_store.by_id(connection, trigger_id)
        if trigger is None:
            continue
        try:
            schedule = read_terms(connection, trigger.key.project, trigger.spec, trigger.resolved).schedule
        except ValueError:
            continue  # it is in quarantine, and told as that
        for backlog in backlog_store.get(connection, [trigger_id]):
            yield count(schedule, backlog.cursor_at, backlog.until_at, MOST_COUNTED + 1)


def _holds(connection: Connection, now: datetime) -> Check:
    on = [hold for hold in holds.not_ended(connection, now) if hold.is_on(now)]
    named = trigger_store.keys(connection, [hold.trigger_id for hold in on if hold.trigger_id])
    told = [ActiveHold(hold.kind, _whom(hold, named), hold.until_at, hold.owner, hold.reason) for hold in on]
    return trigger_checks.holds(sorted(told, key=lambda one: one.kind != HoldKind.FREEZE))


def _failures(connection: Connection, now: datetime) -> Check:
    stopped = trigger_store.stopped_since(connection, now - LATELY, StopReason.FAILURES)
    at_limit = [found for found, stop in worn_triggers(connection) if stop.reason is StopReason.FAILURES]
    named = trigger_store.keys(connection, at_limit)
    return trigger_checks.failures(
        [named.get(trigger_id, trigger_id) for trigger_id in at_limit], [trigger.key for trigger in stopped]
    )


def _deadlines(connection: Connection, now: datetime) -> Check:
    missed = expectations.missed_since(connection, now - LATELY)
    named = trigger_store.keys(connection, [trigger_id for trigger_id, _ in missed])
    return trigger_checks.deadlines([(named.get(trigger_id, trigger_id), due) for trigger_id, due in missed])


def _budgets(connection: Connection, now: datetime) -> Check:
    near: dict[str, float] = {}
    after: str | None = ""
    while after is not None:
        part = counts.budgeted(connection, after, PART)
        shares = spending.used_shares(connection, part, now)
        near |= {trigger_id: share for trigger_id, share in shares.items() if share > NEAR_END}
        after = part[-1].trigger_id if len(part) == PART else None
    named = trigger_store.keys(connection, near)
    highest = sorted(near.items(), key=lambda one: (-one[1], one[0]))
    return trigger_checks.budgets([(named.get(trigger_id, trigger_id), share) for trigger_id, share in highest])


def _whom(hold: Hold, named: Named) -> str:
    if hold.trigger_id:
        return str(named.get(hold.trigger_id, hold.trigger_id))
    parts: Iterable[str] = (
        f"tag {hold.tag}" if hold.tag else "",
        f"project {hold.project}" if hold.project else "",
    )
    return " of ".join(part for part in parts if part) or "everything"


def _way(error: Unavailable, otherwise: str) -> str:
    return error.errors[0].hint if error.errors else otherwise


def troubles(systems: Mapping[System, str]) -> list[tuple[str, str]]:
    """Return (kind, error) of each system that does not answer; `systems` maps each to its launcher kind."""
    asked = [_Question(system, kind) for system, kind in systems.items()]
    end = monotonic() + SYSTEM_TIMEOUT_SECONDS
    for question in asked:
        question.join(max(0.0, end - monotonic()))
    return [(question.kind, wrong) for question in asked if (wrong := question.wrong)]


class _Question(threading.Thread):
    """Thread that asks one system; `wrong` is empty after a good answer."""

    def __init__(self, system: System, kind: str) -> None:
        super().__init__(name=f"doctor {kind}", daemon=True)
        self._system = system
        self.kind = kind
        self.wrong = f"did not answer within {SYSTEM_TIMEOUT_SECONDS:g} s"
        self.start()

    def run(self) -> None:
        try:
            self._system.reach()
        except Exception as error:  # noqa: BLE001 - whatever a plug-in raises is what is wrong
            self.wrong = str(error) or repr(error)
        else:
            self.wrong = ""

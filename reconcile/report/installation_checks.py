"""Checks of `doctor` about the installation; pure functions from facts to a check (R-02, S-14, L-14, O-05)."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

NAMED: Final = 5
"""Maximum number of names in a check."""
CLOCK_WARNS: Final = 1.0
CLOCK_FAILS: Final = 60.0
"""Tolerated offset of a machine's clock from the database's, seconds."""
HAS_TRANSACTION_TIMEOUT: Final = 17
"""First PostgreSQL version with `transaction_timeout` (O-08)."""


class Level(StrEnum):
    """A fault keeps something from happening as it should; a warning may be meant."""

    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Check:
    """Result of a check, with a hint if something is wrong."""

    name: str
    level: Level
    detail: str
    hint: str = ""

    @property
    def ok(self) -> bool:
        """Warnings are well enough."""
        return self.level is not Level.FAULT


def ok(name: str, detail: str) -> Check:
    return Check(name, Level.OK, detail)


def warning(name: str, detail: str, hint: str) -> Check:
    return Check(name, Level.WARNING, detail, hint)


def fault(name: str, detail: str, hint: str) -> Check:
    return Check(name, Level.FAULT, detail, hint)


def database(shown: str, product: str, version: str, major: int | None) -> Check:
    """The server behind an address; `major` is PostgreSQL's."""
    detail = f"{shown}, {product} {version}"
    if major is None or major >= HAS_TRANSACTION_TIMEOUT:
        return ok("database", detail)
    lacks = f"{detail}, has no transaction_timeout: a replica that stalls within a transaction can hold up the others"
    return warning("database", lacks, f"use PostgreSQL {HAS_TRANSACTION_TIMEOUT} or newer")


def pooler(is_pooled: bool) -> Check:
    """Report if a connection pooler lies between this process and the database (O-09)."""
    if not is_pooled:
        return ok("pooler", "none between this process and the database")
    return ok("pooler", "one is before the database: transactions set their timeouts, no statement is prepared")


def notices(heard: str | None, place: str) -> Check:
    """Report if notifications of changes arrive (L-04, O-09).

    `heard` is the result of the test at `place`, None if the database has no notifications. Without them loops and
    runners poll once a second.
    """
    match heard:
        case None:
            return ok("notices", "this database has none: changes made elsewhere are seen within a second or two")
        case "heard":
            return ok("notices", f"heard at {place}")
        case "pooled":
            why = f"{place} leads to a pooler, which passes none on"
        case "unreachable":
            why = f"{place} cannot be reached"
        case _:
            why = f"{place} is another database: nothing said here is heard there"
    hint = "set listen_url to the URL of the same database past the pooler"
    return warning("notices", f"{why}: changes made elsewhere are seen only when they are looked for", hint)


def permissions(role: str | None, is_superuser: bool = False, lacking: Sequence[str] = ()) -> Check:
    """Report the privileges of the database role; `role` is None if the database has no roles (R-02)."""
    if role is None:
        return ok("permissions", "who may write the file may do everything")
    if lacking:
        hint = f"`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}`, as the tables' owner"
        return fault("permissions", f"{role} lacks {named(lacking)}", hint)
    if is_superuser:
        detail = f"{role} is a superuser, whom no guard of history stops"
        return warning("permissions", detail, "let the controller connect as a role that owns nothing")
    return ok("permissions", f"{role} may do what is needed")


def launchers(troubles: Collection[tuple[str, str]], asked: int, unasked: int = 0) -> Check:
    """Report the launchers of registered tasks that cannot be used here, each as (kind, reason).

    `asked` and `unasked` count the remote systems that were probed, and those beyond the limit of probes.
    """
    if troubles:
        detail = named(f"{kind} ({why})" for kind, why in sorted(troubles))
        hint = "see to it wherever a runner is; where none is, never mind"
        return warning("launchers", f"cannot be used by this process: {detail}", hint)
    answer = f", and {many(asked, 'system')} that they go to answer{'s' if asked == 1 else ''}" if asked else ""
    more = f"; {unasked} more {'was' if unasked == 1 else 'were'} not asked" if unasked else ""
    return ok("launchers", f"all that registered tasks need is here{answer}{more}")


def schema(found: str | None, ours: str) -> Check:
    """A schema that this release can work with."""
    if found == ours:
        return ok("schema", f"{found}, this release's")
    return ok("schema", f"{found}, newer than this release's {ours}, which can work with it")


def guards(missing: Sequence[str]) -> Check:
    """Report the database triggers that make history append-only (R-02)."""
    if not missing:
        return ok("guards", "revisions cannot be updated, deleted or replaced")
    hint = "see with `triggerctl verify` whether history was changed; a new database, by export and import, has them"
    return fault("guards", f"history can be changed: {named(missing)} missing", hint)


def clock(offset: float | None) -> Check:
    """`offset`: seconds that this machine is ahead of the database, None where its own clock is the database's."""
    if offset is None:
        return ok("clock", "this machine's clock decides")
    way = "ahead of" if offset > 0 else "behind"
    detail = f"this machine's clock is {span(abs(offset))} {way} the database's, which decides"
    hint = "have the clocks set by NTP on both machines"
    if abs(offset) > CLOCK_FAILS:
        return fault("clock", detail, hint)
    if abs(offset) > CLOCK_WARNS:
        return warning("clock", detail, hint)
    return ok("clock", "this machine's and the database's agree")


def tzdata(ours: str, theirs: Collection[str]) -> Check:
    """The time zones by which this process and the replicas plan (S-14)."""
    versions = sorted({ours, *theirs})
    if len(versions) == 1:
        return ok("tzdata", f"{ours} everywhere")
    others = ", ".join(sorted(set(theirs) - {ours}))
    detail = f"this process plans with {ours}, replicas with {others}: they may disagree about when a trigger fires"
    return warning("tzdata", detail, "install one version of `tzdata` for all of them")


def replicas(versions: Sequence[str]) -> Check:
    """`versions` are the releases of those that run the loop, one for each (L-14)."""
    if not versions:
        hint = "start `triggerctl up`; where one runs, see that `enabled` is true and `loop` not left out"
        return warning("replicas", "none runs the loop: nothing is scheduled", hint)
    runs = "1 runs the loop" if len(versions) == 1 else f"{len(versions)} run the loop"
    return ok("replicas", f"{runs}, of release {', '.join(sorted(set(versions)))}")


def named(names: Iterable[object], most: int = NAMED) -> str:
    """The first of some names, and how many more there are."""
    every = [str(name) for name in names]
    more = len(every) - most
    return ", ".join(every[:most]) + (f" and {more} more" if more > 0 else "")


def many(count: int, thing: str) -> str:
    """A number of things, in words that agree."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def span(seconds: float) -> str:
    """A span in the largest unit that it holds at least twice: `90 s`, `12 min`, `30 h`."""
    for unit, length in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"

"""Tables of runs and of what is decided for them: occurrences, costs, deadlines, backlogs, rates.

The migrations create the tables; a test compares them with these.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)

from revisions.outcomes import DeadlineKind, OccurrenceOutcome, RunSource, RunStatus
from revisions.store.columns import Instant, Word, metadata

runs = Table(
    "runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("trigger_id", Text, nullable=False),
    Column("occurrence_id", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("project", Text, nullable=False),
    Column("domain", Text, nullable=False),
    Column("task", Text, nullable=False),
    Column("task_version", Text, nullable=False),
    Column("source", Word(RunSource), nullable=False),
    Column("overlap", Text, nullable=False),
    Column("max_attempts", Integer, nullable=False),
    Column("actor", Text, nullable=False),
    Column("scheduled_at", Instant, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("available_at", Instant, nullable=False),
    Column("started_at", Instant),
    Column("finished_at", Instant),
    Column("status", Word(RunStatus), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("claim", Integer, nullable=False),
    Column("claimed_by", Text),
    Column("lease_until", Instant),
    Column("cancel_requested_at", Instant),
    Column("cancel_requested_by", Text),
    Column("input", Text, nullable=False),
    Column("output", Text),
    Column("error", Text),
    Column("cost", Float),
    Column("caused_by_run_id", Text),
    Column("caused_by_trigger_id", Text),
    Column("start_by", Instant),
    Column("serialize_key", Text),
    Column("task_limit", Integer),
    Column("reserved", Float),
    Column("cancel_forced", Boolean, nullable=False, server_default=false()),
    Column("token_hash", Text),
    Column("parked", Boolean, nullable=False, server_default=false()),
    Column("approved_at", Instant),
    Column("approved_by", Text),
    Column("traceparent", Text),
    UniqueConstraint("trigger_id", "occurrence_id"),
    Index(None, "trigger_id", "scheduled_at"),
    Index(None, "trigger_id", "id"),
    Index(
        "runs_pending_idx",
        "available_at",
        "id",
        postgresql_where=text("status = 'pending'"),
        sqlite_where=text("status = 'pending'"),
    ),
    Index(
        "runs_start_by_idx",
        "start_by",
        postgresql_where=text("status = 'pending' AND start_by IS NOT NULL"),
        sqlite_where=text("status = 'pending' AND start_by IS NOT NULL"),
    ),
    Index(
        "runs_running_idx",
        "lease_until",
        postgresql_where=text("status = 'running'"),
        sqlite_where=text("status = 'running'"),
    ),
    Index(
        "runs_key_idx",
        "project",
        "serialize_key",
        unique=True,
        postgresql_where=text("status = 'running' AND serialize_key IS NOT NULL"),
        sqlite_where=text("status = 'running' AND serialize_key IS NOT NULL"),
    ),
    Index(
        "runs_token_idx",
        "token_hash",
        unique=True,
        postgresql_where=text("token_hash IS NOT NULL"),
        sqlite_where=text("token_hash IS NOT NULL"),
    ),
    Index(
        "runs_live_idx",
        "trigger_id",
        postgresql_where=text("status IN ('pending', 'running', 'waiting', 'parked')"),
        sqlite_where=text("status IN ('pending', 'running', 'waiting', 'parked')"),
    ),
)

occurrences = Table(
    "occurrences",
    metadata,
    Column("trigger_id", Text, primary_key=True),
    Column("occurrence_id", Text, primary_key=True),
    Column("scheduled_at", Instant, nullable=False),
    Column("scheduled_until", Instant, nullable=False),
    Column("decided_at", Instant, nullable=False),
    Column("outcome", Word(OccurrenceOutcome), nullable=False),
    Column("reason", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("count", Integer),
    Index(None, "decided_at"),
)

costs = Table(
    "costs",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("trigger_id", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("at", Instant, nullable=False),
    Column("amount", Float, nullable=False),
    Index(None, "trigger_id", "at"),
)

expectations = Table(
    "expectations",
    metadata,
    Column("trigger_id", Text, primary_key=True),
    Column("judged_until", Instant, nullable=False),
    Column("look_at", Instant, index=True),
)

missed_deadlines = Table(
    "missed_deadlines",
    metadata,
    Column("trigger_id", Text, primary_key=True),
    Column("kind", Word(DeadlineKind), primary_key=True),
    Column("due_at", Instant, primary_key=True),
    Column("scheduled_at", Instant, nullable=False),
    Column("occurrence_id", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("noticed_at", Instant, nullable=False),
)

forgotten = Table(
    "forgotten",
    metadata,
    Column("trigger_id", Text, primary_key=True),
    Column("until_at", Instant, nullable=False),
)

sweeps = Table(
    "sweeps",
    metadata,
    Column("name", Text, primary_key=True),
    Column("position", Text, nullable=False),
    Column("due_at", Instant, nullable=False),
)

run_logs = Table(
    "run_logs",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("position", BigInteger, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)

rate_buckets = Table(
    "rate_buckets",
    metadata,
    Column("name", Text, primary_key=True),
    Column("empty_until", Instant, nullable=False),
)

project_turns = Table(
    "project_turns",
    metadata,
    Column("project", Text, primary_key=True),
    Column("served_at", Instant, nullable=False),
)
"""When each project was last given a token that others wanted, too."""

catchup_loops = Table(
    "catchup_loops",
    metadata,
    Column("name", Text, primary_key=True),
    Column("slot", BigInteger, nullable=False),
    Column("used", Integer, nullable=False),
)

catchup_backlogs = Table(
    "catchup_backlogs",
    metadata,
    Column("trigger_id", Text, primary_key=True),
    Column("until_at", Instant, primary_key=True),
    Column("cursor_at", Instant, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("served_at", Instant, nullable=False),
    Index(None, "served_at"),
)

quarantines = Table(
    "quarantines",
    metadata,
    Column("trigger_id", Text, primary_key=True),
    Column("since", Instant, nullable=False),
    Column("until_at", Instant, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("error", Text, nullable=False),
)

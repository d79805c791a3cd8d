"""The tables as SQLAlchemy knows them; the migrations make them, a test compares the two."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)

from revisions.store.columns import Instant, TransactionId

SCHEMA = "0006"
"""The schema version this release works with: the newest migration."""

metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
        "ck": "%(table_name)s_%(constraint_name)s",
    }
)

schema_support = Table("schema_support", metadata, Column("readable_since", Text, nullable=False))
"""The oldest schema whose releases can still work with this one; each migration that changes it says so."""

installation = Table("installation", metadata, Column("installation_id", Text, primary_key=True))
"""One row: which installation this database is."""

tasks = Table(
    "tasks",
    metadata,
    Column("project", Text, primary_key=True),
    Column("domain", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("version", Text, primary_key=True),
    Column("spec", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("deleted", Boolean, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("trigger_name", Text),
    Column("total_triggers", Integer, nullable=False),
    Column("active_triggers", Integer, nullable=False),
    Column("trigger_automation", Text),
)

triggers = Table(
    "triggers",
    metadata,
    Column("trigger_id", Text, primary_key=True),
    Column("project", Text, nullable=False),
    Column("domain", Text, nullable=False),
    Column("task", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("task_version", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("active", Boolean, nullable=False),
    Column("deleted", Boolean, nullable=False),
    Column("tags", Text, nullable=False),
    Column("until", Instant),
    Column("origin", Text),
    Column("resolved", Text, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("spec", Text, nullable=False),
    Column("automation", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("changed_at", Instant, nullable=False),
    Column("changed_by", Text, nullable=False),
    Column("deactivated_reason", Text),
    Column("stopped_for", Text),
    Column("serialize_key", Text),
    Column("concurrency_limit", Integer),
    UniqueConstraint("project", "domain", "task", "name"),
    Index(None, "project", "domain", "task", "task_version"),
    Index(
        "triggers_paused_idx",
        "until",
        postgresql_where=text("until IS NOT NULL"),
        sqlite_where=text("until IS NOT NULL"),
    ),
    Index(
        "triggers_key_idx",
        "project",
        "serialize_key",
        "trigger_id",
        postgresql_where=text("serialize_key IS NOT NULL"),
        sqlite_where=text("serialize_key IS NOT NULL"),
    ),
)

trigger_revisions = Table(
    "trigger_revisions",
    metadata,
    Column("trigger_id", Text, primary_key=True),
    Column("revision", Integer, primary_key=True),
    Column("project", Text, nullable=False),
    Column("domain", Text, nullable=False),
    Column("task", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("at", Instant, nullable=False),
    Column("active", Boolean, nullable=False),
    Column("tags", Text, nullable=False),
    Column("until", Instant),
    Column("origin", Text),
    Column("idempotency_key", Text),
    Column("resolved", Text, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("spec", Text, nullable=False),
    Column("previous_hash", Text, nullable=False),
    Column("hash", Text, nullable=False),
    UniqueConstraint("trigger_id", "idempotency_key"),
    sqlite_with_rowid=False,
)

trigger_changes = Table(
    "trigger_changes",
    metadata,
    Column("position", BigInteger().with_variant(Integer, "sqlite"), Identity(always=True), primary_key=True),
    Column("transaction_id", TransactionId, index=True),
    Column("trigger_id", Text, nullable=False),
    Column("revision", Integer, nullable=False),
)

trigger_status = Table(
    "trigger_status",
    metadata,
    Column("trigger_id", Text, primary_key=True),
    Column("revision", Integer, nullable=False),
    Column("watermark", Instant, nullable=False),
    Column("next_fire_at", Instant),
    Column("rate_waiting_since", Instant),
    Column("last_fired_at", Instant),
    Column("last_success_at", Instant),
    Column("last_outcome", Text),
    Column("last_outcome_at", Instant),
    Column("last_run_id", Text),
    Column("last_error", Text),
    Column("run_count", Integer, nullable=False),
    Column("consecutive_failures", Integer, nullable=False),
    Column("started_count", Integer, nullable=False, server_default="0"),
    Column("asked_fire_at", Instant),
    Column("asked_by_run_id", Text),
    Column("success_count", Integer, nullable=False, server_default="0"),
    Column("traceparent", Text),
    Column("over_budget_until", Instant),
    Index(None, "next_fire_at"),
    Index(
        "trigger_status_waiting_idx",
        "rate_waiting_since",
        postgresql_where=text("rate_waiting_since IS NOT NULL"),
        sqlite_where=text("rate_waiting_since IS NOT NULL"),
    ),
    Index(
        "trigger_status_over_budget_idx",
        "over_budget_until",
        postgresql_where=text("over_budget_until IS NOT NULL"),
        sqlite_where=text("over_budget_until IS NOT NULL"),
    ),
)

trigger_states = Table(
    "trigger_states",
    metadata,
    Column("trigger_id", Text, primary_key=True),
    Column("state", Text),
    Column("at", Instant, nullable=False),
    Column("actor", Text, nullable=False),
    Column("run_id", Text),
)

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
    Column("source", Text, nullable=False),
    Column("overlap", Text, nullable=False),
    Column("max_attempts", Integer, nullable=False),
    Column("actor", Text, nullable=False),
    Column("scheduled_at", Instant, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("available_at", Instant, nullable=False),
    Column("started_at", Instant),
    Column("finished_at", Instant),
    Column("status", Text, nullable=False),
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
    Column("outcome", Text, nullable=False),
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
    Column("kind", Text, primary_key=True),
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

calendars = Table(
    "calendars",
    metadata,
    Column("project", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("revision", Integer, primary_key=True),
    Column("deleted", Boolean, nullable=False),
    Column("actor", Text, nullable=False),
    Column("at", Instant, nullable=False),
    Column("spec", Text, nullable=False),
    sqlite_with_rowid=False,
)

holds = Table(
    "holds",
    metadata,
    Column("hold_id", Text, primary_key=True),
    Column("revision", Integer, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("project", Text),
    Column("tag", Text),
    Column("trigger_id", Text),
    Column("from_at", Instant, nullable=False),
    Column("until_at", Instant),
    Column("mode", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("at", Instant, nullable=False),
    sqlite_with_rowid=False,
)

replicas = Table(
    "replicas",
    metadata,
    Column("replica_id", Text, primary_key=True),
    Column("started_at", Instant, nullable=False),
    Column("seen_at", Instant, nullable=False),
    Column("version", Text, nullable=False),
    Column("tzdata", Text, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("token_id", Text, primary_key=True),
    Column("name", Text, nullable=False, index=True),
    Column("hash", Text, nullable=False, unique=True),
    Column("grants", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("expires_at", Instant),
    Column("revoked_at", Instant),
    Column("revoked_by", Text),
    Column("last_used_at", Instant),
)

people = Table(
    "people",
    metadata,
    Column("name", Text, primary_key=True),
    Column("grants", Text, nullable=False),
    Column("seen_at", Instant, nullable=False),
    Column("until_at", Instant, nullable=False),
)

"""Tables of triggers and tasks, and of the installation: calendars, holds, replicas, credentials.

The migrations create the tables; a test compares them with these.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Identity,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from revisions.history.triggers import Action
from revisions.outcomes import HoldKind, HoldMode, OccurrenceOutcome
from revisions.store.columns import Instant, TransactionId, Word, metadata

SCHEMA = "0006"
"""The schema version this release works with: the newest migration."""

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
    Column("action", Word(Action), nullable=False),
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
    Column("last_outcome", Word(OccurrenceOutcome)),
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
    Column("kind", Word(HoldKind), nullable=False),
    Column("project", Text),
    Column("tag", Text),
    Column("trigger_id", Text),
    Column("from_at", Instant, nullable=False),
    Column("until_at", Instant),
    Column("mode", Word(HoldMode), nullable=False),
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

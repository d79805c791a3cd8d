"""The first schema: tasks, triggers with their revisions, runs, and what the loop keeps."""

from collections.abc import Iterator

import sqlalchemy as sa
from alembic import op

from revisions.store import schema
from revisions.store.columns import Instant, TransactionId

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_AUTOMATIONS = ("schedule", "event", "webhook", "file", "table", "action")
_SCHEDULES = ("cron", "every", "at", "in")


def _checks() -> Iterator[sa.CheckConstraint]:
    """Exactly one automation, and exactly one kind of schedule in one (S-01)."""
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    for name, path, fields, condition in (
        ("one_automation", "", _AUTOMATIONS, "{} = 1"),
        ("one_schedule", ".schedule", _SCHEDULES, "{} IN (0, 1)"),
    ):
        if on_postgresql:
            base = "spec::jsonb" + "".join(f"->'{part}'" for part in path.split(".") if part)
            number = "num_nonnulls(" + ", ".join(f"{base}->'{field}'" for field in fields) + ")"
        else:
            number = "(" + " + ".join(f"(json_type(spec, '${path}.{field}') IS NOT NULL)" for field in fields) + ")"
        yield sa.CheckConstraint(condition.format(number), name=f"triggers_{name}")


def _transaction_id() -> sa.TextClause | None:
    """PostgreSQL notes which transaction made a change, so that a reader of the feed knows what may still commit."""
    return sa.text("pg_current_xact_id()") if op.get_bind().dialect.name == "postgresql" else None


def upgrade() -> None:
    op.create_table(
        "catchup_backlogs",
        sa.Column("trigger_id", sa.Text(), nullable=False),
        sa.Column("until_at", Instant(), nullable=False),
        sa.Column("cursor_at", Instant(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("served_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("trigger_id", "until_at", name=op.f("catchup_backlogs_pkey")),
    )
    op.create_index(op.f("catchup_backlogs_served_at_idx"), "catchup_backlogs", ["served_at"], unique=False)
    op.create_table(
        "catchup_loops",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("slot", sa.BigInteger(), nullable=False),
        sa.Column("used", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("catchup_loops_pkey")),
    )
    op.create_table(
        "occurrences",
        sa.Column("trigger_id", sa.Text(), nullable=False),
        sa.Column("occurrence_id", sa.Text(), nullable=False),
        sa.Column("scheduled_at", Instant(), nullable=False),
        sa.Column("scheduled_until", Instant(), nullable=False),
        sa.Column("decided_at", Instant(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("trigger_id", "occurrence_id", name=op.f("occurrences_pkey")),
    )
    op.create_table(
        "rate_buckets",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("empty_until", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("rate_buckets_pkey")),
    )
    op.create_table(
        "run_logs",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "attempt", "position", name=op.f("run_logs_pkey")),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("trigger_id", sa.Text(), nullable=False),
        sa.Column("occurrence_id", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("domain", sa.Text(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("task_version", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("overlap", sa.Text(), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("scheduled_at", Instant(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("available_at", Instant(), nullable=False),
        sa.Column("started_at", Instant(), nullable=True),
        sa.Column("finished_at", Instant(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("claim", sa.Integer(), nullable=False),
        sa.Column("claimed_by", sa.Text(), nullable=True),
        sa.Column("lease_until", Instant(), nullable=True),
        sa.Column("cancel_requested_at", Instant(), nullable=True),
        sa.Column("cancel_requested_by", sa.Text(), nullable=True),
        sa.Column("input", sa.Text(), nullable=False),
        sa.Column("output", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("cost", sa.Float(), nullable=True),
        sa.Column("caused_by_run_id", sa.Text(), nullable=True),
        sa.Column("caused_by_trigger_id", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("runs_pkey")),
        sa.UniqueConstraint("trigger_id", "occurrence_id", name=op.f("runs_trigger_id_occurrence_id_key")),
    )
    op.create_index(op.f("runs_trigger_id_scheduled_at_idx"), "runs", ["trigger_id", "scheduled_at"], unique=False)
    op.create_index(op.f("runs_trigger_id_id_idx"), "runs", ["trigger_id", "id"], unique=False)
    op.create_index(
        "runs_live_idx",
        "runs",
        ["trigger_id"],
        unique=False,
        postgresql_where=sa.text("status IN ('pending', 'running', 'waiting', 'parked')"),
        sqlite_where=sa.text("status IN ('pending', 'running', 'waiting', 'parked')"),
    )
    op.create_index(
        "runs_pending_idx",
        "runs",
        ["available_at", "id"],
        unique=False,
        postgresql_where=sa.text("status = 'pending'"),
        sqlite_where=sa.text("status = 'pending'"),
    )
    op.create_index(
        "runs_running_idx",
        "runs",
        ["lease_until"],
        unique=False,
        postgresql_where=sa.text("status = 'running'"),
        sqlite_where=sa.text("status = 'running'"),
    )
    op.create_table(
        "tasks",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("domain", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("deleted", sa.Boolean(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("trigger_name", sa.Text(), nullable=True),
        sa.Column("total_triggers", sa.Integer(), nullable=False),
        sa.Column("active_triggers", sa.Integer(), nullable=False),
        sa.Column("trigger_automation", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("project", "domain", "name", "version", name=op.f("tasks_pkey")),
    )
    op.create_table(
        "trigger_changes",
        sa.Column(
            "position", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(always=True), nullable=False
        ),
        sa.Column("transaction_id", TransactionId(), server_default=_transaction_id(), nullable=True),
        sa.Column("trigger_id", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("position", name=op.f("trigger_changes_pkey")),
    )
    op.create_table(
        "trigger_revisions",
        sa.Column("trigger_id", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("domain", sa.Text(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("at", Instant(), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("until", Instant(), nullable=True),
        sa.Column("origin", sa.Text(), nullable=True),
        sa.Column("idempotency_key", sa.Text(), nullable=True),
        sa.Column("resolved", sa.Text(), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("previous_hash", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("trigger_id", "revision", name=op.f("trigger_revisions_pkey")),
        sa.UniqueConstraint(
            "trigger_id", "idempotency_key", name=op.f("trigger_revisions_trigger_id_idempotency_key_key")
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "trigger_status",
        sa.Column("trigger_id", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("watermark", Instant(), nullable=False),
        sa.Column("next_fire_at", Instant(), nullable=True),
        sa.Column("rate_waiting_since", Instant(), nullable=True),
        sa.Column("last_fired_at", Instant(), nullable=True),
        sa.Column("last_success_at", Instant(), nullable=True),
        sa.Column("last_outcome", sa.Text(), nullable=True),
        sa.Column("last_outcome_at", Instant(), nullable=True),
        sa.Column("last_run_id", sa.Text(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("run_count", sa.Integer(), nullable=False),
        sa.Column("consecutive_failures", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("trigger_id", name=op.f("trigger_status_pkey")),
    )
    op.create_index(op.f("trigger_status_next_fire_at_idx"), "trigger_status", ["next_fire_at"], unique=False)
    op.create_table(
        "triggers",
        sa.Column("trigger_id", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("domain", sa.Text(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("task_version", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("deleted", sa.Boolean(), nullable=False),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("until", Instant(), nullable=True),
        sa.Column("origin", sa.Text(), nullable=True),
        sa.Column("resolved", sa.Text(), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("automation", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("changed_at", Instant(), nullable=False),
        sa.Column("changed_by", sa.Text(), nullable=False),
        sa.Column("deactivated_reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("trigger_id", name=op.f("triggers_pkey")),
        sa.UniqueConstraint("project", "domain", "task", "name", name=op.f("triggers_project_domain_task_name_key")),
        *_checks(),
    )
    op.create_index(
        op.f("triggers_project_domain_task_task_version_idx"),
        "triggers",
        ["project", "domain", "task", "task_version"],
        unique=False,
    )
    schema.create_guards(op.get_bind(), "trigger_revisions")


def downgrade() -> None:
    schema.drop_guards(op.get_bind(), "trigger_revisions")
    op.drop_table("triggers")
    op.drop_table("trigger_status")
    op.drop_table("trigger_revisions")
    op.drop_table("trigger_changes")
    op.drop_table("tasks")
    op.drop_table("runs")
    op.drop_table("run_logs")
    op.drop_table("rate_buckets")
    op.drop_table("occurrences")
    op.drop_table("catchup_loops")
    op.drop_table("catchup_backlogs")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION refuse_change_of_history()")

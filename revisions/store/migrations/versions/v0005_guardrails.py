"""Keys, limits, budgets, costs and approval of runs; deadlines; tokens, people whom an issuer vouched for; traces."""

import sqlalchemy as sa
from alembic import op

from revisions.store.columns import Instant

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_HOLDS_A_KEY = sa.text("status = 'running' AND serialize_key IS NOT NULL")
_OVER_BUDGET = sa.text("over_budget_until IS NOT NULL")
_SHOWN = sa.text("token_hash IS NOT NULL")
_KEYED = sa.text("serialize_key IS NOT NULL")
_STOPPED = """
UPDATE triggers SET stopped_for = deactivated_reason WHERE deactivated_reason IS NOT NULL AND EXISTS (
    SELECT 1 FROM trigger_revisions AS stop
    WHERE stop.trigger_id = triggers.trigger_id AND stop.action = 'DEACTIVATE' AND stop.actor = 'system'
    AND stop.revision = (
        SELECT max(revision) FROM trigger_revisions AS other
        WHERE other.trigger_id = triggers.trigger_id AND (other.active OR other.action <> 'DEPLOY')
    )
)
"""
"""What the revisions say: a deploy of what is inactive leaves standing why it is."""
_BOUND = """
UPDATE triggers SET serialize_key = {key}, concurrency_limit = {limit}
WHERE spec LIKE '%"serialize_key":%' OR spec LIKE '%"concurrency":%'
"""
_READ = {
    "postgresql": {
        "key": "CAST(spec AS json) ->> 'serialize_key'",
        "limit": "CAST(CAST(spec AS json) #>> '{concurrency,limit}' AS integer)",
    },
    "sqlite": {
        "key": "json_extract(spec, '$.serialize_key')",
        "limit": "json_extract(spec, '$.concurrency.limit')",
    },
}
"""What specs say that were deployed before a downgrade."""


def upgrade() -> None:
    op.add_column("trigger_status", sa.Column("success_count", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("runs", sa.Column("serialize_key", sa.Text(), nullable=True))
    op.add_column("runs", sa.Column("task_limit", sa.Integer(), nullable=True))
    op.add_column("runs", sa.Column("reserved", sa.Float(), nullable=True))
    op.add_column("runs", sa.Column("cancel_forced", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("runs", sa.Column("parked", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("runs", sa.Column("approved_at", Instant(), nullable=True))
    op.add_column("runs", sa.Column("approved_by", sa.Text(), nullable=True))
    op.create_index(
        "runs_key_idx",
        "runs",
        ["project", "serialize_key"],
        unique=True,
        postgresql_where=_HOLDS_A_KEY,
        sqlite_where=_HOLDS_A_KEY,
    )
    op.add_column("triggers", sa.Column("stopped_for", sa.Text(), nullable=True))
    op.execute(_STOPPED)
    op.add_column("triggers", sa.Column("serialize_key", sa.Text(), nullable=True))
    op.add_column("triggers", sa.Column("concurrency_limit", sa.Integer(), nullable=True))
    op.execute(_BOUND.format(**_READ[op.get_bind().dialect.name]))
    op.create_index(
        "triggers_key_idx",
        "triggers",
        ["project", "serialize_key", "trigger_id"],
        unique=False,
        postgresql_where=_KEYED,
        sqlite_where=_KEYED,
    )
    op.add_column("trigger_status", sa.Column("over_budget_until", Instant(), nullable=True))
    op.create_index(
        "trigger_status_over_budget_idx",
        "trigger_status",
        ["over_budget_until"],
        unique=False,
        postgresql_where=_OVER_BUDGET,
        sqlite_where=_OVER_BUDGET,
    )
    op.create_table(
        "costs",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("trigger_id", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("at", Instant(), nullable=False),
        sa.Column("amount", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "attempt", name=op.f("costs_pkey")),
    )
    op.create_index(op.f("costs_trigger_id_at_idx"), "costs", ["trigger_id", "at"], unique=False)
    op.create_table(
        "tokens",
        sa.Column("token_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("grants", sa.Text(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("expires_at", Instant(), nullable=True),
        sa.Column("revoked_at", Instant(), nullable=True),
        sa.Column("revoked_by", sa.Text(), nullable=True),
        sa.Column("last_used_at", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("token_id", name=op.f("tokens_pkey")),
        sa.UniqueConstraint("hash", name=op.f("tokens_hash_key")),
    )
    op.create_index(op.f("tokens_name_idx"), "tokens", ["name"], unique=False)
    op.create_table(
        "people",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("grants", sa.Text(), nullable=False),
        sa.Column("seen_at", Instant(), nullable=False),
        sa.Column("until_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("people_pkey")),
    )
    op.add_column("runs", sa.Column("token_hash", sa.Text(), nullable=True))
    op.create_index("runs_token_idx", "runs", ["token_hash"], unique=True, postgresql_where=_SHOWN, sqlite_where=_SHOWN)
    op.create_table(
        "expectations",
        sa.Column("trigger_id", sa.Text(), nullable=False),
        sa.Column("judged_until", Instant(), nullable=False),
        sa.Column("look_at", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("trigger_id", name=op.f("expectations_pkey")),
    )
    op.create_index(op.f("expectations_look_at_idx"), "expectations", ["look_at"], unique=False)
    op.create_table(
        "missed_deadlines",
        sa.Column("trigger_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("due_at", Instant(), nullable=False),
        sa.Column("scheduled_at", Instant(), nullable=False),
        sa.Column("occurrence_id", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("noticed_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("trigger_id", "kind", "due_at", name=op.f("missed_deadlines_pkey")),
    )
    op.add_column("trigger_status", sa.Column("traceparent", sa.Text(), nullable=True))
    op.add_column("runs", sa.Column("traceparent", sa.Text(), nullable=True))
    op.create_table(
        "forgotten",
        sa.Column("trigger_id", sa.Text(), nullable=False),
        sa.Column("until_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("trigger_id", name=op.f("forgotten_pkey")),
    )
    op.create_table(
        "sweeps",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("position", sa.Text(), nullable=False),
        sa.Column("due_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("sweeps_pkey")),
    )
    op.create_index(op.f("occurrences_decided_at_idx"), "occurrences", ["decided_at"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("occurrences_decided_at_idx"), "occurrences")
    op.drop_table("sweeps")
    op.drop_table("forgotten")
    op.drop_column("runs", "traceparent")
    op.drop_column("trigger_status", "traceparent")
    op.drop_table("missed_deadlines")
    op.drop_table("expectations")
    op.drop_index("runs_token_idx", "runs")
    op.drop_column("runs", "token_hash")
    op.drop_table("people")
    op.drop_index(op.f("tokens_name_idx"), "tokens")
    op.drop_table("tokens")
    op.drop_table("costs")
    op.drop_index("trigger_status_over_budget_idx", "trigger_status")
    op.drop_column("trigger_status", "over_budget_until")
    op.drop_index("triggers_key_idx", "triggers")
    for column in ("concurrency_limit", "serialize_key", "stopped_for"):
        op.drop_column("triggers", column)
    op.drop_index("runs_key_idx", "runs")
    for column in ("approved_by", "approved_at", "parked"):
        op.drop_column("runs", column)
    for column in ("cancel_forced", "reserved", "task_limit", "serialize_key"):
        op.drop_column("runs", column)
    op.drop_column("trigger_status", "success_count")

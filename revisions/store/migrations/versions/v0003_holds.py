"""Calendars and holds (append-only), quarantine, replicas; the fire that a run asked for, and how many started."""

import sqlalchemy as sa
from alembic import op

from revisions.store import schema
from revisions.store.columns import Instant

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_WAITING = sa.text("rate_waiting_since IS NOT NULL")
_PAUSED = sa.text("until IS NOT NULL")


def upgrade() -> None:
    op.add_column("trigger_status", sa.Column("started_count", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("trigger_status", sa.Column("asked_fire_at", Instant(), nullable=True))
    op.add_column("trigger_status", sa.Column("asked_by_run_id", sa.Text(), nullable=True))
    op.create_index(
        "trigger_status_waiting_idx",
        "trigger_status",
        ["rate_waiting_since"],
        unique=False,
        postgresql_where=_WAITING,
        sqlite_where=_WAITING,
    )
    op.create_index(
        "triggers_paused_idx", "triggers", ["until"], unique=False, postgresql_where=_PAUSED, sqlite_where=_PAUSED
    )
    op.create_table(
        "quarantines",
        sa.Column("trigger_id", sa.Text(), nullable=False),
        sa.Column("since", Instant(), nullable=False),
        sa.Column("until_at", Instant(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("trigger_id", name=op.f("quarantines_pkey")),
    )
    op.create_table(
        "calendars",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("deleted", sa.Boolean(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("at", Instant(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("project", "name", "revision", name=op.f("calendars_pkey")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "holds",
        sa.Column("hold_id", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=True),
        sa.Column("tag", sa.Text(), nullable=True),
        sa.Column("trigger_id", sa.Text(), nullable=True),
        sa.Column("from_at", Instant(), nullable=False),
        sa.Column("until_at", Instant(), nullable=True),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("hold_id", "revision", name=op.f("holds_pkey")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "replicas",
        sa.Column("replica_id", sa.Text(), nullable=False),
        sa.Column("started_at", Instant(), nullable=False),
        sa.Column("seen_at", Instant(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("tzdata", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("replica_id", name=op.f("replicas_pkey")),
    )
    for table in ("calendars", "holds"):
        schema.create_guards(op.get_bind(), table)


def downgrade() -> None:
    for table in ("holds", "calendars"):
        schema.drop_guards(op.get_bind(), table)
    for table in ("replicas", "holds", "calendars", "quarantines"):
        op.drop_table(table)
    op.drop_index("triggers_paused_idx", "triggers")
    op.drop_index("trigger_status_waiting_idx", "trigger_status")
    for column in ("asked_by_run_id", "asked_fire_at", "started_count"):
        op.drop_column("trigger_status", column)

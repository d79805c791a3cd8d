"""The state that a trigger's runs hand on, apart from its status; until when a run must have begun."""

import sqlalchemy as sa
from alembic import op

from revisions.store.columns import Instant

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_WAITING = sa.text("status = 'pending' AND start_by IS NOT NULL")


def upgrade() -> None:
    op.create_table(
        "trigger_states",
        sa.Column("trigger_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=True),
        sa.Column("at", Instant(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("trigger_id", name=op.f("trigger_states_pkey")),
    )
    op.add_column("runs", sa.Column("start_by", Instant(), nullable=True))
    op.create_index(
        "runs_start_by_idx", "runs", ["start_by"], unique=False, postgresql_where=_WAITING, sqlite_where=_WAITING
    )


def downgrade() -> None:
    op.drop_index("runs_start_by_idx", "runs")
    op.drop_column("runs", "start_by")
    op.drop_table("trigger_states")

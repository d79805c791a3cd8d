"""The id by which work elsewhere is known to be this database's, and when each project had its turn for a token."""

import sqlalchemy as sa
from alembic import op

from revisions.clock import HostClock
from revisions.ids import fresh
from revisions.store.columns import Instant

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    table = op.create_table(
        "installation",
        sa.Column("installation_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("installation_id", name=op.f("installation_pkey")),
    )
    op.bulk_insert(table, [{"installation_id": fresh(HostClock().now(op.get_bind()))}])
    op.create_table(
        "project_turns",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("served_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("project", name=op.f("project_turns_pkey")),
    )


def downgrade() -> None:
    op.drop_table("project_turns")
    op.drop_table("installation")

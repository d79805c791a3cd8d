"""The id by which work elsewhere is known to be this database's."""

import sqlalchemy as sa
from alembic import op

from revisions.clock import HostClock
from revisions.ids import fresh

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


def downgrade() -> None:
    op.drop_table("installation")

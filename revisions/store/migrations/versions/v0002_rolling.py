"""Rolling upgrades: the schema says which releases can still work with it; the feed is found by transaction."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table("schema_support", sa.Column("readable_since", sa.Text(), nullable=False))
    op.execute("INSERT INTO schema_support (readable_since) VALUES ('0002')")
    op.create_index(op.f("trigger_changes_transaction_id_idx"), "trigger_changes", ["transaction_id"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("trigger_changes_transaction_id_idx"), "trigger_changes")
    op.drop_table("schema_support")

"""Tokens, and people whom an issuer vouched for; the token that a running run shows."""

import sqlalchemy as sa
from alembic import op

from revisions.store.tables import Instant

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_SHOWN = sa.text("token_hash IS NOT NULL")


def upgrade() -> None:
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


def downgrade() -> None:
    op.drop_index("runs_token_idx", "runs")
    op.drop_column("runs", "token_hash")
    op.drop_table("people")
    op.drop_index(op.f("tokens_name_idx"), "tokens")
    op.drop_table("tokens")

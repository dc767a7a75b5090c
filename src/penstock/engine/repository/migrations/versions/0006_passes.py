"""Tickets and cookies for Spark's own pages, by their digests: services of one database know each other's."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "passes",
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("root", sa.Text, nullable=False),
        sa.Column("token_id", sa.Text, nullable=False),
        sa.Column("token_hash", sa.Text, nullable=False),
        sa.Column("ends_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("passes_by_token", "passes", ["token_id", "ends_at"])
    op.execute("REVOKE ALL ON passes FROM PUBLIC")

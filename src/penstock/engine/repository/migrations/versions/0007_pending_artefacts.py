"""Artefacts that their lake did not take yet, where services share no state directory."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "pending_artefacts",
        sa.Column("application_id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("part", sa.Integer, primary_key=True),
        sa.Column("engine", sa.Text, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    # As for the secrets: an administrator may have default privileges for others, and logs are their owner's.
    op.execute("REVOKE ALL ON pending_artefacts FROM PUBLIC")

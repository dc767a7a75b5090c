"""Secrets that several state directories share, sealed before they come here."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "secrets",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("about", JSONB, nullable=False),
        sa.Column("sealed", sa.Text),
    )
    # An administrator may have default privileges for others in this database: these rows are the engine's alone.
    op.execute("REVOKE ALL ON secrets FROM PUBLIC")

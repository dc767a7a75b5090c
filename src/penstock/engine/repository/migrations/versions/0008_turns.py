"""The time since which a waiting application could start, had its command claimed its turn."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("applications", sa.Column("turn_since", sa.DateTime(timezone=True)))

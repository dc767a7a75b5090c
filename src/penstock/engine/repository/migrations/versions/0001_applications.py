"""Applications and what happened to them."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# Held by the database itself, so that no later release, repair script or second engine can rewrite history.
_FINAL_IS_FINAL = """
CREATE FUNCTION refuse_change_after_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.state IS DISTINCT FROM OLD.state THEN
        RAISE EXCEPTION 'application % is %, which is final', OLD.id, OLD.state;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER final_is_final BEFORE UPDATE ON applications
    FOR EACH ROW WHEN (OLD.state IN ('finished', 'failed', 'stopped', 'auto_terminated'))
    EXECUTE FUNCTION refuse_change_after_end();
"""


def upgrade() -> None:
    op.create_table(
        "applications",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("engine", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("tags", JSONB, nullable=False),
        sa.Column("spec", JSONB, nullable=False),
        sa.Column("idempotency_key", sa.Text),
        sa.Column("submitted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True)),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.Column("reason", JSONB(none_as_null=True)),
        sa.Column("end_request", JSONB(none_as_null=True)),
        sa.Column("spark_application_id", sa.Text),
        sa.Column("exit_code", sa.Integer),
        sa.Column("cluster", JSONB(none_as_null=True)),
        sa.Column("summary", JSONB(none_as_null=True)),
        sa.UniqueConstraint("engine", "idempotency_key"),
        sa.CheckConstraint(
            "state IN ('accepted', 'waiting', 'starting', 'running', 'stopping',"
            " 'finished', 'failed', 'stopped', 'auto_terminated')",
            name="known_state",
        ),
    )
    op.create_index("applications_by_time", "applications", ["submitted_at", "id"])
    op.create_index(
        "applications_alive",
        "applications",
        ["engine", "submitted_at"],
        postgresql_where=sa.text("ended_at IS NULL OR cluster IS NOT NULL"),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("application_id", sa.Text, sa.ForeignKey("applications.id", ondelete="CASCADE"), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("from_state", sa.Text),
        sa.Column("to_state", sa.Text, nullable=False),
        sa.Column("detail", JSONB, nullable=False),
    )
    op.create_index("events_of_application", "events", ["application_id", "id"])
    op.execute(_FINAL_IS_FINAL)

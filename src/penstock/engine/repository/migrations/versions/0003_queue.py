"""What a service needs: instances, the fair queue, attempts, costs, webhooks and the audit."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_moment = sa.DateTime(timezone=True)

# Held by the database itself: whoever gets hold of the service cannot tidy up behind himself through it.
_AUDIT_IS_FINAL = """
CREATE FUNCTION refuse_change_of_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit is only added to';
END $$;
CREATE TRIGGER audit_is_final BEFORE UPDATE OR DELETE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit();
"""


def upgrade() -> None:
    for column in (
        sa.Column("instance", sa.Text, nullable=False, server_default="default"),
        sa.Column("priority", sa.Integer, nullable=False, server_default="0"),
        sa.Column("dispatched", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("attempt", sa.Integer, nullable=False, server_default="1"),
        sa.Column("attempts", JSONB, nullable=False, server_default="[]"),
        sa.Column("admitted_at", _moment),
        sa.Column("not_before", _moment),
        sa.Column("cost", JSONB(none_as_null=True)),
        sa.Column("fingerprint", sa.Text),
    ):
        op.add_column("applications", column)
    _admissions_of_before()
    op.drop_constraint("applications_engine_idempotency_key_key", "applications")
    op.create_unique_constraint("one_per_key", "applications", ["engine", "instance", "idempotency_key"])
    _indexes()
    _instances()
    _deliveries()
    _audit()


def _admissions_of_before() -> None:
    """Clusters that were running when the release changed go on, and their time limits with them."""
    op.execute(
        "UPDATE applications SET admitted_at = (SELECT min(at) FROM events"
        " WHERE application_id = applications.id AND event = 'Admitted')"
    )


def _indexes() -> None:
    op.drop_index("applications_by_time", "applications")
    op.create_index("applications_by_time", "applications", ["engine", "submitted_at", "id"])
    op.create_index("applications_by_name", "applications", ["engine", "name", "id"])
    op.create_index("applications_of_instance", "applications", ["engine", "instance", "submitted_at", "id"])
    op.create_index("applications_in_state", "applications", ["engine", "state", "submitted_at", "id"])
    op.create_index("applications_by_tag", "applications", ["tags"], postgresql_using="gin")
    for name in ("started_at", "ended_at"):
        op.execute(f"CREATE INDEX applications_by_{name} ON applications (engine, coalesce({name}, 'infinity'), id)")
    op.create_index(
        "applications_queued",
        "applications",
        ["engine", "instance", sa.text("priority DESC"), "submitted_at", "id"],
        postgresql_where=sa.text("state IN ('accepted', 'waiting')"),
    )


def _instances() -> None:
    op.create_table(
        "instances",
        sa.Column("engine", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("weight", sa.Float, nullable=False, server_default="1"),
        sa.Column("quota", JSONB, nullable=False, server_default="{}"),
        sa.Column("attributes", JSONB, nullable=False, server_default="{}"),
        sa.Column("core_seconds", sa.Float, nullable=False, server_default="0"),
        sa.Column("byte_seconds", sa.Float, nullable=False, server_default="0"),
        sa.Column("used_at", _moment),
        sa.CheckConstraint("weight > 0", name="weight_above_zero"),
    )


def _deliveries() -> None:
    op.create_table(
        "deliveries",
        sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("engine", sa.Text, nullable=False),
        sa.Column("application_id", sa.Text, sa.ForeignKey("applications.id", ondelete="CASCADE"), nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("body", JSONB, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
        sa.Column("due_at", _moment),
        sa.Column("delivered_at", _moment),
        sa.Column("problem", sa.Text),
    )
    op.create_index(
        "deliveries_due", "deliveries", ["engine", "due_at"], postgresql_where=sa.text("due_at IS NOT NULL")
    )
    op.create_index("deliveries_of_application", "deliveries", ["application_id", "id"])


def _audit() -> None:
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("engine", sa.Text, nullable=False),
        sa.Column("at", _moment, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("instance", sa.Text),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("detail", JSONB, nullable=False),
    )
    op.create_index("audit_by_time", "audit", ["engine", "id"])
    op.execute(_AUDIT_IS_FINAL)

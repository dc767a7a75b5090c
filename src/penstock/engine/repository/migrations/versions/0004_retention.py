"""The audit may be shortened at its old end, and there only."""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

# Row by row, since which rows go is what matters. The age is here, and no setting: it is what the database vouches for.
_OLD_ENTRIES_MAY_GO = """
DROP TRIGGER audit_is_final ON audit;
CREATE TRIGGER audit_is_final BEFORE UPDATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit();
CREATE FUNCTION refuse_loss_of_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.at > now() - interval '30 days' THEN
        RAISE EXCEPTION 'the audit is only added to';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER audit_is_kept BEFORE DELETE ON audit
    FOR EACH ROW EXECUTE FUNCTION refuse_loss_of_audit();
CREATE FUNCTION refuse_emptying_of_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit is only added to';
END $$;
CREATE TRIGGER audit_is_not_emptied BEFORE TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_emptying_of_audit();
"""


def upgrade() -> None:
    op.execute(_OLD_ENTRIES_MAY_GO)
    op.create_index("audit_by_age", "audit", ["engine", "at"])

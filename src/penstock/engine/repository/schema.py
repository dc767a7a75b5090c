"""The tables of the engine's records, and their migration to this release's version."""

from __future__ import annotations

from pathlib import Path

import psycopg
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from penstock.engine.repository.migrations import HEAD
from penstock.errors import Conflict, StateError

_MIGRATION_LOCK = 7031_0001

metadata = sa.MetaData()
_moment = sa.DateTime(timezone=True)

applications = sa.Table(
    "applications",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("engine", sa.Text),
    sa.Column("state", sa.Text),
    sa.Column("name", sa.Text),
    sa.Column("tags", JSONB),
    sa.Column("spec", JSONB),
    sa.Column("idempotency_key", sa.Text),
    sa.Column("submitted_at", _moment),
    sa.Column("started_at", _moment),
    sa.Column("ended_at", _moment),
    sa.Column("reason", JSONB(none_as_null=True)),
    sa.Column("end_request", JSONB(none_as_null=True)),
    sa.Column("spark_application_id", sa.Text),
    sa.Column("exit_code", sa.Integer),
    sa.Column("cluster", JSONB(none_as_null=True)),
    sa.Column("summary", JSONB(none_as_null=True)),
    sa.Column("instance", sa.Text),
    sa.Column("priority", sa.Integer),
    sa.Column("dispatched", sa.Boolean),
    sa.Column("attempt", sa.Integer),
    sa.Column("attempts", JSONB),
    sa.Column("admitted_at", _moment),
    sa.Column("not_before", _moment),
    sa.Column("cost", JSONB(none_as_null=True)),
    sa.Column("fingerprint", sa.Text),
    sa.Column("turn_since", _moment),
)

events = sa.Table(
    "events",
    metadata,
    sa.Column("id", sa.BigInteger, primary_key=True),
    sa.Column("application_id", sa.Text),
    sa.Column("at", _moment),
    sa.Column("event", sa.Text),
    sa.Column("from_state", sa.Text),
    sa.Column("to_state", sa.Text),
    sa.Column("detail", JSONB),
)

tokens = sa.Table(
    "tokens",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text),
    sa.Column("grants", JSONB),
    sa.Column("secret_hash", sa.Text),
    sa.Column("created_at", _moment),
    sa.Column("expires_at", _moment),
    sa.Column("last_used_at", _moment),
)

instances = sa.Table(
    "instances",
    metadata,
    sa.Column("engine", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("weight", sa.Float),
    sa.Column("quota", JSONB),
    sa.Column("attributes", JSONB),
    sa.Column("core_seconds", sa.Float),
    sa.Column("byte_seconds", sa.Float),
    sa.Column("used_at", _moment),
)

deliveries = sa.Table(
    "deliveries",
    metadata,
    sa.Column("id", sa.BigInteger, primary_key=True),
    sa.Column("engine", sa.Text),
    sa.Column("application_id", sa.Text),
    sa.Column("url", sa.Text),
    sa.Column("body", JSONB),
    sa.Column("tries", sa.Integer),
    sa.Column("due_at", _moment),
    sa.Column("delivered_at", _moment),
    sa.Column("problem", sa.Text),
)

audit = sa.Table(
    "audit",
    metadata,
    sa.Column("id", sa.BigInteger, primary_key=True),
    sa.Column("engine", sa.Text),
    sa.Column("at", _moment),
    sa.Column("actor", sa.Text),
    sa.Column("action", sa.Text),
    sa.Column("subject", sa.Text),
    sa.Column("instance", sa.Text),
    sa.Column("outcome", sa.Text),
    sa.Column("address", sa.Text),
    sa.Column("detail", JSONB),
)

secrets = sa.Table(
    "secrets",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("about", JSONB),
    sa.Column("sealed", sa.Text),
)
"""See `catalog/secrets.py`."""

passes = sa.Table(
    "passes",
    metadata,
    sa.Column("digest", sa.Text, primary_key=True),
    sa.Column("root", sa.Text),
    sa.Column("token_id", sa.Text),
    sa.Column("token_hash", sa.Text),
    sa.Column("ends_at", _moment),
)
"""See `service/auth.py` and `service/spark_ui`."""

pending_artifacts = sa.Table(
    "pending_artefacts",
    metadata,
    sa.Column("application_id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("part", sa.Integer, primary_key=True),
    sa.Column("engine", sa.Text),
    sa.Column("content", sa.LargeBinary),
)
"""See `engine/artifacts.py`."""

FUNCTIONS = frozenset(
    {"refuse_change_after_end", "refuse_change_of_audit", "refuse_emptying_of_audit", "refuse_loss_of_audit"}
)
"""The functions that the migrations create; a test compares this with the scripts."""

VERSION_TABLE = "alembic_version"


def ensure(engine: sa.Engine) -> None:
    """Migrate where the version differs: one query in the usual case, safe against concurrent migrations.

    Raises `StateError` where the records were made by a newer release.
    """
    with engine.connect() as connection:
        if _version(connection) == HEAD:
            return
    with engine.begin() as connection:
        hold_migrations(connection)
        if _version(connection) != HEAD:
            migrate(connection)


def version(engine: sa.Engine) -> str | None:
    """The version of the records, which are not changed; None where there are none yet."""
    with engine.connect() as connection:
        return _version(connection)


def _version(connection: sa.Connection) -> str | None:
    if connection.execute(sa.text("SELECT to_regclass('alembic_version')")).scalar() is None:
        return None
    version: str | None = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    return version


def drop(connection: sa.Connection) -> list[str]:
    """Drop the tables and functions of the records, of any version, and nothing else; return the tables' names.

    Raises `Conflict` where a foreign object (a view, a foreign key) depends on one of them.
    """
    names = [*metadata.tables, VERSION_TABLE]
    there = [name for name in names if connection.execute(sa.select(sa.func.to_regclass(name))).scalar() is not None]
    try:
        if there:
            connection.execute(sa.text(f"DROP TABLE {', '.join(there)}"))
        for name in sorted(FUNCTIONS):
            connection.execute(sa.text(f"DROP FUNCTION IF EXISTS {name}()"))
    except (sa.exc.InternalError, sa.exc.OperationalError) as error:
        if not isinstance(error.orig, psycopg.errors.DependentObjectsStillExist):
            raise
        raise Conflict(
            "The records cannot be replaced",
            why=error.orig.diag.message_detail or str(error.orig),
            fix="drop the dependent objects, or move them to another schema, and recreate them afterwards",
        ) from error
    return sorted(there)


def hold_migrations(connection: sa.Connection) -> None:
    """Block other migrations until the end of the transaction."""
    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))


def migrate(connection: sa.Connection, version: str = "head") -> None:
    """Migrate the records to that version, in the connection's transaction.

    Raises `StateError` where the records, or the version, are of a newer release. Takes a third of a second, once per
    release.
    """
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, version)
    except CommandError as error:
        raise StateError(
            "The engine's records were written by a newer Penstock",
            why=str(error),
            fix="install that release again, or choose another state directory with PENSTOCK_HOME=/path",
        ) from error

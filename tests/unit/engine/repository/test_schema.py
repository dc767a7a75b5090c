"""The schema version in the code matches the migration scripts."""

from __future__ import annotations

import re
from pathlib import Path

from alembic.config import Config
from alembic.script import ScriptDirectory

from penstock.engine.repository import migrations, schema


def test_head_is_the_newest_script() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    assert ScriptDirectory.from_config(config).get_current_head() == migrations.HEAD


def test_a_restore_knows_every_table_and_function_that_a_migration_makes() -> None:
    scripts = [script.read_text() for script in (Path(migrations.__file__).parent / "versions").glob("*.py")]
    functions = {name for script in scripts for name in re.findall(r"CREATE FUNCTION (\w+)", script)}
    tables = {name for script in scripts for name in re.findall(r"op\.create_table\(\s*\"(\w+)\"", script)}
    assert functions == schema.FUNCTIONS
    assert tables == set(schema.metadata.tables)

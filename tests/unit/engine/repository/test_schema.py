"""The schema version in the code matches the migration scripts."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

from alembic.config import Config
from alembic.script import ScriptDirectory

from penstock import catalog
from penstock.engine import repository
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


def test_advisory_locks_have_numbers_of_their_own() -> None:
    """Two locks with one number would wait for each other, or deadlock."""
    modules = [
        importlib.import_module(f"{package.__name__}.{module.name}")
        for package in (repository, catalog)
        for module in pkgutil.iter_modules(package.__path__)
    ]
    names = {
        (module.__name__, name): number
        for module in modules
        for name, number in vars(module).items()
        if "_LOCK" in name
    }
    assert {name for _, name in names} >= {"_MIGRATION_LOCK", "_ADMISSION_LOCK", "_ORDER_LOCK", "_ADVISORY_LOCK"}
    assert len(set(names.values())) == len(names)

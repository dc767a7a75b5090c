"""Secrets reach only the processes that need them: all output and files of a run are searched."""

from __future__ import annotations

from pathlib import Path

from penstock.catalog.database import Database
from penstock.engine.engine import Engine
from penstock.engine.interactive.history import HistoryServers
from penstock.home import Home
from penstock.lake.registry import Lakes
from tests.support.command import SMALL, WAITS, Command, named, running
from tests.support.secrets_search import command_lines, files_left, files_of, records
from tests.support.waiting import within


def test_no_secret_is_shown_recorded_or_left_behind(shared_home: Home, tmp_path: Path) -> None:
    engine, command, go = Engine(shared_home), Command(shared_home), tmp_path / "go"
    # Another test's application has its own private files while it runs.
    list(HistoryServers(engine).stop_all())
    script = tmp_path / "uses.py"
    # Uses the lake, the catalog and Iceberg, and prints all settings it can see: it cannot leak others.
    script.write_text(
        WAITS.replace(
            "spark.stop()",
            "spark.sql('create or replace temporary view v as select 1 a')\n"
            "spark.sql('show tables').show()\n"
            "spark.range(5).write.mode('overwrite').parquet(sys.argv[2])\n"
            "print(spark.read.parquet(sys.argv[2]).count())\n"
            "spark.sql('create table secretive using iceberg as select 1 a')\n"
            "spark.sql('select * from secretive').show()\n"
            "spark.sql('drop table secretive purge')\nspark.stop()",
        ),
        encoding="utf-8",
    )
    # Uncompressed, so that this test can read the event log.
    options = [*SMALL, "--conf", "spark.eventLog.compress=false", "--name", "secretive"]
    target = f"{engine.lake().root}/secrets-test"
    process = command.start("run", *options, str(script), str(go), target)
    application = running(engine, "secretive")
    directory = shared_home.application(application.id)
    secrets = known_secrets(shared_home, directory)
    shown: dict[str, bytes] = {}
    shown.update(command_lines())
    shown.update(files_of(directory, apart_from=directory / "private"))
    go.touch()
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    within(lambda: named(engine, "secretive")[0].state.final)
    shown["standard output"], shown["standard error"] = out.encode(), err.encode()
    for name in engine.artifacts.sizes(application.id):
        shown[f"artifact {name}"] = engine.artifacts.load(application.id, name)
    shown.update(records(shared_home))
    shown.update(files_left(shared_home))
    assert any(name.startswith("artifact events/") for name in shown)
    assert b"spark.master" in b"".join(shown.values())
    found = [(name, kind) for name, text in shown.items() for kind, secret in secrets.items() if secret in text]
    assert found == []


def known_secrets(home: Home, directory: Path) -> dict[str, bytes]:
    keys = Lakes(home).credentials_of(Lakes(home).get())
    settings = (directory / "private" / "spark.conf").read_text(encoding="ascii").splitlines()
    database = Database(home)
    return {
        "lake's secret key": keys.secret_key.encode(),
        "lake's access key": keys.access_key.encode(),
        "records' password": database.url("penstock").password.encode(),
        "metastore's password": database.url("metastore").password.encode(),
        "cluster's own secret": next(
            line.partition("=")[2] for line in settings if line.startswith("spark.authenticate.secret=")
        ).encode(),
    }

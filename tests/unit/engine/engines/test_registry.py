"""Each engine by its name and its program, and what one that is a single process refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.catalog.connection import DatabaseUrl
from penstock.catalog.metastore import Metastore
from penstock.engine.engines.contract import Access
from penstock.engine.engines.one_process import ACCESS_FILE, Sail
from penstock.engine.engines.registry import ENGINES, engine_named, engine_of, is_statements
from penstock.engine.interactive import sessions
from penstock.engine.submission import resolve
from penstock.errors import InvalidInput, MissingRequirement
from penstock.home import Home
from penstock.lake.model import Credentials, HdfsClient, Lake
from penstock.model import DUCKDB_INTERNAL, SPARK_INTERNAL, TRINO_INTERNAL, ApplicationSpec, ClusterSize, ProcessSize
from tests.support.fake_engine import FakeBackend
from tests.unit.engine.engine_making import size, spec

ALONE = ClusterSize(ProcessSize(2, 1 << 30), ProcessSize(2, 1 << 30), executors=0)
LAKE = Lake("near", ("https://a.example",), "bucket", "environment")


@pytest.fixture
def backend(tmp_path: Path) -> FakeBackend:
    return FakeBackend(Home(tmp_path))


def duckdb_spec(**more: Any) -> ApplicationSpec:
    return replace(spec(application=DUCKDB_INTERNAL, size=ALONE), **more)


@pytest.mark.parametrize("name", ENGINES)
def test_statements_of_every_engine_are_known_as_such(name: str) -> None:
    engine = engine_named(name)
    asked = sessions.application(engine, name="sql", lake="near", size=size(), limit=7, settings=None)
    assert engine_of(asked) is engine
    assert is_statements(asked)
    assert sessions.limit_of(asked) == 7


@pytest.mark.parametrize(("program", "main_class"), [("/a.py", None), ("/a.jar", "a.B"), (SPARK_INTERNAL, "a.B")])
def test_other_applications_are_spark_s(program: str, main_class: str | None) -> None:
    found = spec(application=program, main_class=main_class)
    assert engine_of(found).name == "spark"
    assert not is_statements(found)


def test_a_python_file_of_sail_is_run_by_a_driver_that_learns_from_a_private_file_alone(
    backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sail, "require_installed", lambda _: None)
    files = {"application": "s3a://bucket/a.py", "python_files": ("s3a://bucket/b.py",)}
    asked = spec(**files, engine="sail", size=ALONE, arguments=("{private}",))
    assert engine_of(asked) is ENGINES["sail"]
    assert not is_statements(asked)
    plan = ENGINES["sail"].launch("app-1", resolve(asked, backend).spec, access(monkeypatch, LAKE))
    driver = "penstock.engine.engines.sail.scripts"
    assert plan.program[-4:] == (driver, "{private}/access.json", "{cluster}", "{artifacts}")
    assert json.loads(plan.private_files[ACCESS_FILE])["script"] == {
        "file": "s3a://bucket/a.py",
        "python_files": ["s3a://bucket/b.py"],
        "arguments": ["{private}"],
        "tables": "s3a://bucket/penstock/applications/app-1/tables",
    }


@pytest.mark.parametrize(
    ("engine", "file", "problem"),
    [
        ("duckdb", "s3a://bucket/a.py", "DuckDB cannot run s3a://bucket/a.py"),
        ("sail", "s3a://bucket/a.jar", "Sail cannot run s3a://bucket/a.jar"),
        ("presto", "s3a://bucket/a.py", "There is no engine “presto”"),
    ],
)
def test_a_file_that_an_engine_does_not_run_is_refused(
    backend: FakeBackend, engine: str, file: str, problem: str
) -> None:
    asked = spec(application=file, engine=engine, size=ALONE, main_class="a.B" if file.endswith(".jar") else None)
    with pytest.raises(InvalidInput) as refused:
        resolve(asked, backend)
    assert refused.value.problem == problem


def test_the_engine_counts_among_what_makes_submissions_equal() -> None:
    usual = spec(application="/a.py")
    assert "engine" not in usual.submitted_json()
    assert usual.fingerprint() != replace(usual, engine="sail").fingerprint()
    assert ApplicationSpec.from_json(usual.submitted_json()).engine == "spark"


def test_an_unknown_engine_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput) as refused:
        engine_named("presto")
    assert refused.value.fix == "--engine spark or duckdb or sail or trino"


def test_duckdb_is_as_large_as_an_executor_and_promised_alone(backend: FakeBackend) -> None:
    usual = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(2, 2 << 30), executors=1)
    asked = duckdb_spec(size=engine_named("duckdb").usual_size(usual))
    resolved = resolve(asked, backend)
    assert resolved.spec.size.driver == usual.executor
    assert resolved.spec.size.executor_cores == 0
    assert resolved.spec.size.scratch_memory_bytes == 0
    assert resolved.settings == {}


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"size": size(2)}, "DuckDB has no executors"),
        ({"settings": {"spark.ui.enabled": "true"}}, "DuckDB has no use for spark.ui.enabled"),
        ({"main_class": "a.B"}, "DuckDB has no use for a.B"),
        ({"jars": ("s3a://lake/a.jar",)}, "DuckDB has no use for s3a://lake/a.jar"),
    ],
)
def test_what_only_spark_has_is_refused(backend: FakeBackend, more: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        resolve(duckdb_spec(**more), backend)
    assert refused.value.problem == problem


def test_duckdb_is_refused_where_clusters_are_on_other_machines(backend: FakeBackend) -> None:
    backend.shares_files = False
    with pytest.raises(InvalidInput, match="DuckDB cannot run here"):
        resolve(duckdb_spec(), backend)


def access(monkeypatch: pytest.MonkeyPatch, lake: Lake) -> Access:
    url = DatabaseUrl("db.example", 5432, "tables", "p@ss", "metastore", (("sslmode", "require"),))
    monkeypatch.setattr(Metastore, "url", lambda _: url)
    return Access(lake, Credentials("key", "hidden"), Metastore.__new__(Metastore))


def test_duckdb_s_secrets_are_in_private_files_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = engine_named("duckdb").launch("app-1", duckdb_spec(), access(monkeypatch, LAKE))
    given = json.loads(launch.private_files[ACCESS_FILE])
    assert given["metastore"] == "postgresql+psycopg://tables:p%40ss@db.example:5432/metastore?sslmode=require"
    assert (given["cores"], given["memory_bytes"]) == (2, 1 << 30)
    shown = f"{launch.program} {launch.settings} {launch.environment}"
    assert "hidden" not in shown
    assert "p%40ss" not in shown


@pytest.mark.parametrize("name", ["duckdb", "sail", "trino"])
def test_an_engine_of_one_process_reads_no_hdfs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = replace(LAKE, hdfs=HdfsClient("host:8020", 1, short_circuit=False))
    with pytest.raises(InvalidInput, match=f"{engine_named(name).title} is for lakes on S3"):
        engine_named(name).launch("app-1", duckdb_spec(), access(monkeypatch, lake))


def trino_spec(memory_bytes: int) -> ApplicationSpec:
    alone = ClusterSize(ProcessSize(2, memory_bytes), ProcessSize(2, memory_bytes), executors=0)
    return spec(application=TRINO_INTERNAL, size=alone)


def test_trino_is_refused_before_it_starts_where_it_is_not_installed_or_has_no_room(
    backend: FakeBackend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PENSTOCK_TRINO_HOME", str(tmp_path / "trino"))
    with pytest.raises(InvalidInput, match="Trino needs more memory") as refused:
        resolve(trino_spec(1 << 30), backend)
    assert refused.value.fix == "--driver-memory 2g, or more"
    with pytest.raises(MissingRequirement, match="Trino is not installed"):
        resolve(trino_spec(2 << 30), backend)
    assert engine_named("trino").missing() is not None
    (tmp_path / "trino").mkdir()
    assert engine_named("trino").missing() is not None
    for part in ("lib", "plugin/iceberg"):
        (tmp_path / "trino" / part).mkdir(parents=True)
    assert resolve(trino_spec(2 << 30), backend).settings == {}
    assert engine_named("trino").missing() is None


def test_trino_s_driver_finds_the_server_that_the_engine_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The process of an application has its engine's variables for directories no longer."""
    monkeypatch.setenv("PENSTOCK_TRINO_HOME", str(tmp_path / "trino"))
    launch = engine_named("trino").launch("app-1", trino_spec(2 << 30), access(monkeypatch, LAKE))
    assert launch.environment["PENSTOCK_TRINO_HOME"] == str(tmp_path / "trino")

"""An application's resolved settings: the precedence of layers that set the same key."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.catalog.connection import DATABASE_VARIABLE
from penstock.catalog.database import Database
from penstock.engine.engines import spark
from penstock.engine.preparation import servers_of
from penstock.home import Home
from penstock.lake.model import HdfsClient, Lake
from penstock.lake.registry import Lakes
from penstock.model import ApplicationSpec, ClusterSize, ProcessSize

FACTORY = "spark.hadoop.fs.s3a.s3.client.factory.impl"
LAKE = Lake("far", ("https://a.example", "https://b.example"), "bucket", "environment")


def settings_of(profile: str, **user: str) -> dict[str, str]:
    size = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(2, 2 << 30), executors=1)
    spec = ApplicationSpec("app.py", size, "test", profile=profile, settings={FACTORY: user["factory"]} if user else {})
    return spark.resolved(spec, LAKE).values()


def test_a_lake_brings_the_client_of_all_its_gateways() -> None:
    assert settings_of("default")[FACTORY] == "io.penstock.fs.gateways.GatewayClientFactory"


def test_another_client_is_that_client_whatever_the_lake_says_of_ours() -> None:
    assert settings_of("default+s3a-tuned")[FACTORY] == "org.apache.hadoop.fs.s3a.DefaultS3ClientFactory"
    assert settings_of("default+s3a-tuned")["spark.hadoop.fs.s3a.endpoint"] == "https://a.example"


def test_the_user_has_the_last_word() -> None:
    assert settings_of("default+s3a-tuned", factory="a.Factory")[FACTORY] == "a.Factory"


def test_the_servers_are_those_of_the_lake_and_the_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path)
    monkeypatch.setenv(DATABASE_VARIABLE, "postgresql://penstock:secret@db.example/")
    Lakes(home).add(LAKE)
    hdfs = HdfsClient("namenode.example:8020", 1, short_circuit=False)
    Lakes(home).add(Lake("tree", ("http://namenode.example:9870",), "tree", "none", hdfs=hdfs))
    catalog = ("db.example", 5432)
    assert servers_of(home, Database(home), "far") == [catalog, ("a.example", 443), ("b.example", 443)]
    assert servers_of(home, Database(home), "tree") == [
        catalog,
        ("namenode.example", 9870),
        ("namenode.example", 8020),
    ]
    assert servers_of(home, Database(home), "removed") == [catalog]


def test_an_embedded_catalog_that_never_started_has_no_address(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert servers_of(home, Database(home), "removed") == []


def test_a_damaged_list_of_lakes_hides_no_failure_of_an_application(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)
    monkeypatch.setenv(DATABASE_VARIABLE, "postgresql://penstock:secret@db.example/")
    Lakes(home).add(LAKE)
    (home.lake / "lakes.json").write_text("{", encoding="utf-8")
    assert servers_of(home, Database(home), "far") == [("db.example", 5432)]

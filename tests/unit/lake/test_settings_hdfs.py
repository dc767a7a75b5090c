"""An HDFS lake beside S3 lakes: its addresses, and its applications' settings."""

from __future__ import annotations

import pytest

from penstock.engine.engines import spark
from penstock.errors import InvalidInput
from penstock.home import Home
from penstock.lake import settings as lake_settings
from penstock.lake import stores
from penstock.lake.model import NO_CREDENTIALS, Credentials, HdfsClient, Lake, require_s3
from penstock.lake.registry import Lakes
from penstock.model import ApplicationSpec, ClusterSize, ProcessSize

NEAR = Lake(
    "hdfs",
    ("http://127.0.0.1:1",),
    "hdfs",
    NO_CREDENTIALS,
    "hdfs",
    hdfs=HdfsClient("127.0.0.1:2", 2, short_circuit=True),
)
FAR = Lake(
    "far",
    ("http://127.0.0.1:1",),
    "far",
    NO_CREDENTIALS,
    "hdfs",
    hdfs=HdfsClient("127.0.0.1:2", 1, short_circuit=False),
)
BUCKET = Lake("sales", ("http://store:9000",), "data", "environment")


def settings_of(lake: Lake, profile: str = "default") -> dict[str, str]:
    size = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(2, 2 << 30), executors=1)
    return spark.resolved(ApplicationSpec("app.py", size, "test", profile=profile), lake).values()


def test_its_root_is_a_name_and_not_the_address_of_a_namenode_that_may_move() -> None:
    assert NEAR.root == "hdfs://hdfs"


@pytest.mark.parametrize("lake", [NEAR, BUCKET])
def test_a_lake_survives_its_registry(lake: Lake, tmp_path) -> None:
    lakes = Lakes(Home(tmp_path))
    lakes.add(lake)
    assert lakes.get(lake.name) == lake


def test_its_own_addresses_are_keys_and_those_of_others_are_refused() -> None:
    assert NEAR.key("hdfs://hdfs/a/b") == "a/b"
    for text in ("hdfs://far/a", "s3a://hdfs/a"):
        with pytest.raises(InvalidInput):
            NEAR.key(text)
    with pytest.raises(InvalidInput):
        BUCKET.key("hdfs://data/a")


@pytest.mark.parametrize("profile", ["default", "sql", "tpcds", "etl", "terasort", "ml"])
def test_its_applications_have_no_s3_settings_and_commit_as_hadoop_does(profile: str) -> None:
    assert [key for key in settings_of(NEAR, profile) if ".fs.s3a." in key] == []
    assert "spark.sql.sources.commitProtocolClass" not in settings_of(NEAR, profile)


def test_what_a_workload_says_of_spark_holds_there_too() -> None:
    theirs = {key: value for key, value in settings_of(BUCKET, "tpcds").items() if key.startswith("spark.executor.")}
    assert theirs
    assert theirs.items() <= settings_of(NEAR, "tpcds").items()


def test_near_is_read_as_files_and_far_over_tcp() -> None:
    for lake, expected in ((NEAR, "true"), (FAR, "false")):
        assert settings_of(lake)["spark.hadoop.dfs.client.read.shortcircuit"] == expected


def test_its_tables_are_in_it() -> None:
    assert settings_of(NEAR)["spark.sql.warehouse.dir"] == "hdfs://hdfs/warehouse"


def test_it_has_no_secret_to_write_down() -> None:
    assert lake_settings.private_files(NEAR, None) == {}
    assert lake_settings.environment(NEAR) == {}
    assert lake_settings.private_files(BUCKET, Credentials("key", "secret"))
    assert lake_settings.environment(BUCKET)


def test_what_is_about_s3_refuses_it_by_name() -> None:
    require_s3(BUCKET, "The sweep")
    with pytest.raises(InvalidInput, match="The sweep is for lakes on S3, and “hdfs” is an HDFS"):
        require_s3(NEAR, "The sweep")


def test_store_facts_name_the_replicas_and_how_they_are_read(tmp_path) -> None:
    near, far = (stores.store_facts(Home(tmp_path), lake) for lake in (NEAR, FAR))
    assert (near.software, near.protection, near.raw_factor) == ("HDFS", "2x", 2.0)
    assert "short-circuit" in near.layout["reads"]
    assert far.layout["reads"] == "over TCP"
    assert stores.daemons(Home(tmp_path), NEAR) == {}

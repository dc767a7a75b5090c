"""An application's resolved settings: the precedence of layers that set the same key."""

from __future__ import annotations

from penstock.engine.engines import spark
from penstock.lake.model import Lake
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

"""Every setting of a profile is known to Spark and explained, and at the papers' cluster size has the papers' value."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import MissingRequirement
from penstock.model import ClusterSize
from penstock.profiles import workloads
from penstock.profiles.check import check
from penstock.profiles.known import Registry, bundled_registry
from penstock.profiles.layers import Layer, resolve
from tests.unit.profiles.profile_sizes import DOCUMENTS, LAPTOP, SIZES

ROOT = Path(__file__).parents[3]
NAMES = st.sampled_from(workloads.profile_names())
VARIANTS = [f"default+{variant}" for variant in workloads.variant_names()]
LAYERS = {
    layer.name: layer for name in (*workloads.profile_names(), *VARIANTS) for layer in workloads.profile_layers(name)
}


@pytest.fixture(scope="module")
def known() -> Registry:
    try:
        return bundled_registry()
    except MissingRequirement as missing:
        pytest.skip(f"{missing.problem}; make jars writes it")


def values(name: str, size: ClusterSize) -> dict[str, str]:
    return resolve(workloads.profile_layers(name), size).values()


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_every_value_has_a_reason_and_a_source(layer: Layer) -> None:
    for setting in layer.settings:
        assert len(setting.reason) > 20, setting.key
        assert len(setting.source) > 10, setting.key


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_a_source_among_the_documents_exists_with_its_headings(layer: Layer) -> None:
    for setting in layer.settings:
        for path, headings in re.findall(r"(docs/[\w/-]+\.md)((?:,? (?:and )?'[^']+')*)", setting.source):
            text = (ROOT / path).read_text(encoding="utf-8")
            for heading in re.findall("'([^']+)'", headings):
                assert re.search(rf"^#+ {re.escape(heading)}$", text, re.MULTILINE), f"{setting.key}: {setting.source}"


@given(st.sampled_from(list(LAYERS.values())), SIZES)
def test_a_layer_sets_a_key_once(layer: Layer, size: ClusterSize) -> None:
    keys = [setting.key for setting, _ in layer.for_size(size)]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_spark_knows_every_key(layer: Layer, known: Registry) -> None:
    unknown = {setting.key for setting in layer.settings if known.get(setting.key) is None}
    # Parquet, Hadoop's MapReduce and Iceberg read these without a declaration.
    assert unknown <= {
        "spark.hadoop.hive.metastore.fs.handler.class",
        "spark.hadoop.iceberg.engine.hive.lock-enabled",
        "spark.hadoop.parquet.hadoop.vectored.io.enabled",
        "spark.hadoop.parquet.page.verify-checksum.enabled",
        "spark.hadoop.mapreduce.outputcommitter.factory.scheme.s3a",
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version",
        "spark.hadoop.mapred.output.committer.class",
    }


@given(NAMES, SIZES)
def test_no_profile_has_a_problem_at_any_size(name: str, size: ClusterSize) -> None:
    try:
        known = bundled_registry()
    except MissingRequirement as missing:
        pytest.skip(f"{missing.problem}; make jars writes it")
    assert check(values(name, size), known, size=size) == []


@given(NAMES, SIZES)
def test_the_connection_pool_is_never_smaller_than_its_threads(name: str, size: ClusterSize) -> None:
    settings = values(name, size)
    assert int(settings["spark.hadoop.fs.s3a.connection.maximum"]) >= int(settings["spark.hadoop.fs.s3a.threads.max"])
    assert int(settings["spark.hadoop.fs.s3a.connection.maximum"]) >= 12 * size.executor.cores


@given(NAMES, SIZES)
def test_the_file_listing_cache_leaves_the_driver_its_heap(name: str, size: ClusterSize) -> None:
    cache = int(values(name, size)["spark.sql.hive.filesourcePartitionFileCacheSize"])
    assert cache <= max(size.driver.memory_bytes // 8, 64 << 20)


def test_at_the_documents_size_the_values_are_the_documents() -> None:
    settings = values("tpcds", DOCUMENTS)
    table_6 = {
        "spark.network.timeout": "3600s",
        "spark.shuffle.io.maxRetries": "10",
        "spark.shuffle.io.retryWait": "60s",
        "spark.shuffle.io.serverThreads": "64",
        "spark.shuffle.io.clientThreads": "64",
        "spark.rpc.io.serverThreads": "64",
        "spark.rpc.io.clientThreads": "64",
        "spark.rpc.io.threads": "64",
    }
    rest = {
        "spark.memory.fraction": "0.8",
        "spark.memory.storageFraction": "0.2",
        "spark.sql.autoBroadcastJoinThreshold": "30m",
        "spark.hadoop.fs.s3a.readahead.range": "64K",
        "spark.hadoop.fs.s3a.experimental.input.fadvise": "random",
        "spark.hadoop.fs.s3a.block.size": "32M",
    }
    assert table_6.items() | rest.items() <= settings.items()
    assert int(settings["spark.sql.hive.filesourcePartitionFileCacheSize"]) >= 5 << 30


def test_a_small_cluster_has_neither_hour_long_time_outs_nor_64_threads() -> None:
    settings = values("default", LAPTOP)
    assert settings["spark.network.timeout"] == "600s"
    assert "spark.shuffle.io.serverThreads" not in settings


def test_terasort_reads_in_splits_of_up_to_the_documents_1024_mb() -> None:
    assert values("terasort", DOCUMENTS)["spark.hadoop.fs.s3a.block.size"] == "1024m"
    assert values("terasort", LAPTOP)["spark.hadoop.fs.s3a.block.size"] == "512m"


def test_every_profile_commits_without_renames() -> None:
    for name in workloads.profile_names():
        settings = values(name, LAPTOP)
        assert settings["spark.hadoop.fs.s3a.committer.name"] == "magic"
        assert settings["spark.sql.sources.commitProtocolClass"] == "io.penstock.fs.commit.AtomicCommitProtocol"
        assert settings["spark.hadoop.fs.s3a.committer.magic.track.commits.in.memory.enabled"] == "true"


def test_every_profile_skips_files_and_its_variant_without_skipping_differs_in_that_alone() -> None:
    for name in workloads.profile_names():
        skipping, without = values(name, LAPTOP), values(f"{name}+no-skipping", LAPTOP)
        assert "io.penstock.skipping.SkippingExtension" in skipping["spark.sql.extensions"].split(",")
        assert without.items() - skipping.items() == {("spark.penstock.skipping.enabled", "false")}
        assert skipping.items() <= without.items()


def test_variants_add_up() -> None:
    both = values("tpcds+s3a-default+no-skipping", LAPTOP)
    assert both["spark.penstock.skipping.enabled"] == "false"
    assert both["spark.hadoop.fs.s3a.impl"] == "org.apache.hadoop.fs.s3a.S3AFileSystem"


def test_reading_the_profiles_loads_nothing_heavy() -> None:
    heavy = "{'pyspark', 'sqlalchemy', 'boto3', 'rich', 'typer', 'duckdb'}"
    program = f"import sys, penstock.profiles.workloads, penstock.profiles.check; print({heavy} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"

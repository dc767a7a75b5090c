"""Other clients of the same lake, for comparisons: layers on top of any profile, everything else being equal.

`tpcds+s3a-default` is the profile `tpcds` with Hadoop's own S3A and its default settings. These layers turn off all of
Penstock's extensions of S3A; the application, the cluster and the counting of requests stay the same. On HDFS the
settings of S3 are removed without a replacement: the commit protocol, the reader and the block sizes are Spark's and
Hadoop's own, since the baseline is HDFS in common use, not a tuned one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from penstock.profiles import s3a
from penstock.profiles.base import (
    CEPH_LAKE_REQUESTS,
    COMMITTERS,
    S3A_COMMITTERS,
    S3A_GUIDE,
    S3A_PERFORMANCE,
    SPARK_CLOUD,
)
from penstock.profiles.layers import Layer, Setting
from penstock.profiles.s3a import S3A

LAB_JARS = Path(__file__).parent.parent / "jars" / "lab"
"""Jars for comparisons only, which are on no other application's class path."""

_HADOOP = "spark.hadoop."
_HADOOPS_OWN = "core-default.xml of Hadoop 3.4.2"

_WITHOUT_PENSTOCK = Layer(
    "s3a",
    "Hadoop's S3A without Penstock's extensions",
    (
        Setting(
            S3A + "impl",
            "org.apache.hadoop.fs.s3a.S3AFileSystem",
            "The file system itself, without block locations and without a write-through cache",
            S3A_GUIDE,
        ),
        Setting(
            S3A + "input.stream.type",
            "classic",
            "Every read goes to the store: nothing is cached on the node",
            S3A_PERFORMANCE,
        ),
        Setting(
            S3A + "s3.client.factory.impl",
            "org.apache.hadoop.fs.s3a.DefaultS3ClientFactory",
            "A single endpoint, as in S3A itself",
            S3A_GUIDE,
        ),
        Setting(
            S3A + "committer.name",
            "magic",
            "Spark 4.1 selects it by default for this scheme, so a comparison without it would favor Penstock",
            "docs/guide/lab.md, 'Lab files'",
        ),
        Setting(
            _HADOOP + "mapreduce.outputcommitter.factory.scheme.s3a",
            "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory",
            "S3A's committers, not Penstock's",
            SPARK_CLOUD,
        ),
        Setting(
            _HADOOP + "mapred.output.committer.class",
            "org.apache.hadoop.mapred.FileOutputCommitter",
            "Hadoop's, not Penstock's: S3A has none for this interface",
            "docs/guide/lab.md, 'Lab files'",
        ),
        Setting(
            "spark.sql.sources.commitProtocolClass",
            "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol",
            "Spark's own binding to S3A's committers, not Penstock's",
            SPARK_CLOUD,
        ),
        Setting(
            "spark.sql.parquet.output.committer.class",
            "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter",
            "Spark's own binding to S3A's committers, not Penstock's",
            SPARK_CLOUD,
        ),
    ),
)

_DEFAULTS = {
    "experimental.input.fadvise": "normal",
    "readahead.range": "64K",
    "vectored.active.ranged.reads": "4",
    "vectored.read.min.seek.size": "128K",
    "vectored.read.max.merged.size": "2M",
    "fast.upload.buffer": "disk",
    "fast.upload.active.blocks": "4",
    "multipart.size": "64M",
    "block.size": "32M",
    "connection.maximum": "500",
    "threads.max": "96",
    "connection.establish.timeout": "30s",
    "connection.timeout": "200s",
    "attempts.maximum": "5",
    "retry.limit": "7",
    "retry.throttle.interval": "100ms",
    "committer.threads": "8",
    "committer.magic.track.commits.in.memory.enabled": "false",
}

_AS_SHIPPED = Layer.of(
    "s3a-default",
    {S3A + name: value for name, value in _DEFAULTS.items()},
    reason="S3A as Spark ships it, with Hadoop's default settings",
    source=_HADOOPS_OWN,
)

_TUNED = Layer(
    "s3a-tuned",
    "S3A with the published tuning, and Penstock's tuning of its requests and connections",
    (
        Setting(
            S3A + "readahead.range",
            "64K",
            "A stream reads ahead this far rather than close its connection, so that not every read opens a new one. "
            "The other half of that tuning, the policy random, is in the profiles that read columns: text would be "
            "read in requests of 64 KiB each",
            CEPH_LAKE_REQUESTS,
        ),
    ),
)

_ANALYTICS = Layer(
    "s3a-analytics",
    "S3A with the analytics stream, which prefetches by the file's format",
    (
        Setting(
            S3A + "input.stream.type",
            "analytics",
            "The reader that Hadoop's authors recommend for Parquet",
            S3A_PERFORMANCE,
        ),
        *(
            Setting(
                f"spark.{role}.extraClassPath",
                str(LAB_JARS / "*"),
                "The stream is in a library that hadoop-aws does not include",
                S3A_PERFORMANCE,
            )
            for role in ("driver", "executor")
        ),
    ),
)

_RENAMING = Layer(
    "s3a-renaming",
    "s3a-tuned with the committer that renames: output is copied into place",
    (
        Setting(
            S3A + "committer.name",
            "file",
            "Hadoop's classic committer; a rename in an object store copies every byte and deletes the original",
            f"{COMMITTERS}; {S3A_COMMITTERS}",
        ),
        Setting(
            _HADOOP + "mapreduce.outputcommitter.factory.scheme.s3a",
            "org.apache.hadoop.mapreduce.lib.output.FileOutputCommitterFactory",
            "The committer of every other file system",
            S3A_COMMITTERS,
        ),
        Setting(
            _HADOOP + "mapreduce.fileoutputcommitter.algorithm.version",
            "1",
            "Of its two algorithms, the one with which a failed task leaves nothing behind",
            S3A_COMMITTERS,
        ),
        Setting(
            "spark.sql.sources.commitProtocolClass",
            "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol",
            "Spark SQL's own commit protocol, its default without cloud settings",
            SPARK_CLOUD,
        ),
        Setting(
            "spark.sql.parquet.output.committer.class",
            "org.apache.parquet.hadoop.ParquetOutputCommitter",
            "Parquet's own committer, its default without cloud settings",
            SPARK_CLOUD,
        ),
    ),
)

LAYERS: dict[str, tuple[Layer, ...]] = {
    "s3a-default": (_WITHOUT_PENSTOCK, _AS_SHIPPED),
    "s3a-tuned": (_WITHOUT_PENSTOCK, _TUNED),
    "s3a-analytics": (_WITHOUT_PENSTOCK, _AS_SHIPPED, _ANALYTICS),
    "s3a-renaming": (_WITHOUT_PENSTOCK, _TUNED, _RENAMING),
}
"""The layers by the suffix of a profile's name, after a plus; weakest first."""


def without_s3(layers: Iterable[Layer]) -> tuple[Layer, ...]:
    """Return the layers without the store's, and without S3A's settings in the others."""
    return tuple(
        replace(layer, settings=tuple(one for one in layer.settings if not one.key.startswith(s3a.S3A)))
        for layer in layers
        if layer is not s3a.STORE
    )

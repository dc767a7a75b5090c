"""Queries over columnar tables whose statistics are in the catalog."""

from __future__ import annotations

from penstock.profiles.setting import Layer, Setting
from penstock.profiles.sources import CEPH_LAKE_REQUESTS, PLATFORM_LAYOUT, SMALL_CLUSTERS, SPARK_SQL_TUNING
from penstock.profiles.store import S3A

LAYER = Layer(
    "sql",
    "queries over columnar tables with statistics in the catalog",
    (
        Setting(
            "spark.sql.cbo.enabled",
            "true",
            "Column statistics collected up front are read by nothing else; without them joins are sized by file bytes",
            f"{SPARK_SQL_TUNING}; {PLATFORM_LAYOUT}",
        ),
        Setting(
            "spark.sql.cbo.joinReorder.enabled",
            "true",
            "Joins run in the order that keeps intermediate results small, not in the order they are written in",
            f"{SPARK_SQL_TUNING}; {PLATFORM_LAYOUT}",
        ),
        Setting(
            "spark.driver.extraJavaOptions",
            "-XX:TieredStopAtLevel=1",
            "Planning is much code run a few times: the optimising compiler took 62 of 359 core-seconds from the 103 "
            "TPC-DS queries and gave the planner nothing back. Executors keep it: their loops are hot",
            SMALL_CLUSTERS,
        ),
        Setting(
            S3A + "experimental.input.fadvise",
            "random",
            "Columnar files are read by ranges only, also by readers that do not say so when they open a file (ORC)",
            CEPH_LAKE_REQUESTS,
        ),
    ),
)

"""TPC-DS: many short queries one after another in one session. Sits on top of `sql`."""

from __future__ import annotations

from penstock.engine.application import ClusterSize
from penstock.profiles import base
from penstock.profiles.setting import Layer, Setting
from penstock.profiles.sources import SMALL_CLUSTERS


def _shuffle_partitions(size: ClusterSize) -> str:
    return str(size.executor_cores) if size.executor_cores <= 16 else base.shuffle_partitions(size)


LAYER = Layer(
    "tpcds",
    "TPC-DS: many short queries in one session",
    (
        Setting(
            "spark.sql.shuffle.partitions",
            _shuffle_partitions,
            "On a small cluster the scales that fit it shuffle little: one task a core has the least to schedule",
            SMALL_CLUSTERS,
        ),
    ),
)

"""Iterative learning: the input is read once, cached, and gone through many times."""

from __future__ import annotations

from penstock.profiles.setting import Layer, Setting
from penstock.profiles.sources import MEMORY_ACCELERATOR, SPARK_CONFIGURATION, SPARK_TUNING

LAYER = Layer(
    "ml",
    "iterative learning over cached data (K-means)",
    (
        Setting(
            "spark.memory.storageFraction",
            "0.5",
            "Every iteration reads the cached input: what is evicted is fetched from the lake again",
            f"{MEMORY_ACCELERATOR}, K-means; {SPARK_TUNING}, memory management",
        ),
        Setting(
            "spark.serializer",
            "org.apache.spark.serializer.KryoSerializer",
            "Cached and broadcast objects are smaller and faster to read than with Java's serialisation",
            f"{SPARK_TUNING}, data serialization",
        ),
        Setting(
            "spark.rdd.compress",
            "false",
            "Cached partitions are read in every iteration; PySpark, which turns this on, would unpack them each time",
            f"{SPARK_CONFIGURATION}, compression and serialization",
        ),
        Setting(
            "spark.sql.execution.arrow.pyspark.enabled",
            "true",
            "Python gets columns instead of pickled rows; Spark falls back by itself where pyarrow is not installed",
            f"{SPARK_CONFIGURATION}, runtime SQL configuration",
        ),
        *(
            Setting(
                f"spark.{role}.extraJavaOptions",
                "--add-modules=jdk.incubator.vector",
                "MLlib's linear algebra uses the processor's vector instructions through this module",
                "Spark 4.1.2, org.apache.spark.launcher.JavaModuleOptions: spark-submit always passes it",
            )
            for role in ("driver", "executor")
        ),
    ),
)

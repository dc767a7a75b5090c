"""Estimate pi by throwing darts: `penstock run examples/pi.py [TASKS]`. The smallest cluster application."""

import random
import sys

from pyspark.sql import SparkSession

DARTS_PER_TASK = 100_000


def hits(seed: int) -> int:
    darts = random.Random(seed)  # noqa: S311
    return sum(darts.random() ** 2 + darts.random() ** 2 <= 1 for _ in range(DARTS_PER_TASK))


if __name__ == "__main__":
    tasks = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    spark = SparkSession.builder.getOrCreate()
    inside = spark.sparkContext.parallelize(range(tasks), tasks).map(hits).sum()
    print(f"Pi is roughly {4 * inside / (tasks * DARTS_PER_TASK):.4f}")
    spark.stop()

"""One of two Spark applications on one catalog: it makes a table, then reads the other's. Not a test itself.

Arguments: own name, the other's name, warehouse directory. Prints the sum it read.
"""

# ruff: noqa: S608 (the names come from the test beside it)

from __future__ import annotations

import sys
import time

from pyspark.sql import SparkSession

me, other, warehouse = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.warehouse.dir", warehouse)
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.sql.sources.partitionOverwriteMode", "dynamic")
    .enableHiveSupport()
    .getOrCreate()
)
# Both applications make the same database at about the same time.
spark.sql("CREATE DATABASE IF NOT EXISTS shared")
spark.sql(f"CREATE TABLE shared.{me} (Amount BIGINT, Label CHAR(3), Day DATE) USING parquet PARTITIONED BY (Day)")
spark.sql(f"INSERT INTO shared.{me} VALUES (1, 'a', DATE'2026-01-01'), (2, 'b', DATE'2026-01-02'), (4, 'c', NULL)")
spark.sql(f"ANALYZE TABLE shared.{me} COMPUTE STATISTICS FOR ALL COLUMNS")
spark.sql(f"CREATE VIEW shared.{me}_ready AS SELECT * FROM shared.{me}")
deadline = time.monotonic() + 120
while not spark.catalog.tableExists(f"shared.{other}_ready"):
    assert time.monotonic() < deadline, f"{other} never came"
    time.sleep(0.2)
# Hive looks for transactions in a dropped database through a separate connection pool.
spark.sql(f"CREATE DATABASE only_{me}")
spark.sql(f"CREATE TABLE only_{me}.kept USING parquet AS SELECT 1 AS id")
spark.sql(f"DROP DATABASE only_{me} CASCADE")
assert not spark.catalog.databaseExists(f"only_{me}")
print(spark.sql(f"SELECT sum(Amount) FROM shared.{other} WHERE Day IS NOT NULL").first()[0])
spark.stop()

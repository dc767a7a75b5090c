"""The Spark application whose run fills the class-data archives: a sample of the common work of applications.

`cds.build_archives` runs it once per installation; its classes then load fast in every later driver and executor.
Argument: a location for its temporary tables, local (`file:…`) or in the lake (`s3a://…`, which trains the S3 client).
With `spark.sql.catalogImplementation=hive` it trains the table catalog too, and with Penstock's `spark.sql.extensions`
an index and file skipping.
"""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql import SparkSession


def main(location: str) -> None:
    spark = SparkSession.builder.appName("penstock training").getOrCreate()
    spark.range(0, 2000, 1, 4).selectExpr(
        "id",
        "id % 7 as k",
        "cast(id as string) as name",
        "date_add(date'2000-01-01', cast(id % 30 as int)) as day",
        "cast(id * 1.5 as decimal(9,2)) as price",
    ).write.mode("overwrite").partitionBy("k").parquet(f"{location}/facts")
    spark.range(7).selectExpr("id as k", "concat('n', id) as label").write.mode("overwrite").parquet(
        f"{location}/names"
    )
    for table in ("facts", "names"):
        spark.read.parquet(f"{location}/{table}").createOrReplaceTempView(table)
    extensions = spark.conf.get("spark.sql.extensions", "") or ""
    if "SkippingExtension" in extensions:
        spark.sql(f"build skipping index on parquet.`{location}/facts`")
        # Skipping by the keys of a broadcast side, and of a side that runs a second time for its keys.
        for hint in ("broadcast", "merge"):
            keys = spark.table("names").where("label = 'n3'").selectExpr("k as id").hint(hint)
            spark.table("facts").join(keys, "id").count()
    spark.sql(
        """select label, count(*), sum(price), avg(price), max(day), count(distinct name),
                  rank() over (order by sum(price) desc) as place
           from facts join names using (k)
           where day between date'2000-01-03' and date'2000-01-20' and name like '1%' and k in (1, 2, 3)
           group by rollup(label) having count(*) > 1 order by place, label limit 10"""
    ).collect()
    spark.sql("select /*+ merge(b) */ count(*) from facts a join facts b on a.id = b.id where a.price > 10").collect()
    spark.sql(
        "select case when k > 3 then 'x' end, substr(name, 1, 2) from facts where id in (select k from names)"
        " union all select label, null from names"
    ).write.mode("overwrite").parquet(f"{location}/result")
    spark.sql("explain select * from facts").collect()
    if "IcebergExtension" in extensions:
        _iceberg(spark, location)
    if spark.conf.get("spark.sql.catalogImplementation") == "hive":
        spark.catalog.listTables()
    spark.sparkContext.parallelize(range(10), 2).map(lambda number: number + 1).sum()
    java: Any = spark.sparkContext._jvm
    path = java.org.apache.hadoop.fs.Path(location)
    path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).delete(path, True)
    spark.stop()


def _iceberg(spark: SparkSession, location: str) -> None:
    """Make, change and ask an Iceberg table, in a catalog of files: the metastore never has a table of a training."""
    spark.conf.set("spark.sql.catalog.training", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set("spark.sql.catalog.training.type", "hadoop")
    spark.conf.set("spark.sql.catalog.training.warehouse", location)
    spark.sql("use training")
    spark.sql("create table lake.orders (id bigint, name string, k int) using iceberg partitioned by (bucket(2, id))")
    spark.sql("insert into lake.orders select id, name, k from facts where id < 100")
    spark.sql(
        "merge into lake.orders o using names n on o.id = n.k when matched then update set name = n.label"
        " when not matched then insert (id, name, k) values (n.k, n.label, 0)"
    )
    spark.sql("delete from lake.orders where id = 3")
    spark.sql("select k, count(*), max(name) from lake.orders where id > 1 group by k").collect()
    spark.sql("use spark_catalog")


if __name__ == "__main__":
    main(sys.argv[1])

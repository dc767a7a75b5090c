"""A notebook's use of a session through PySpark's ordinary client: `connect_client.py ADDRESS [REFUSED …]`.

Prints JSON, with the error from each address that refuses it.

Its Python has `pyspark-client` alone, without Spark's own jars or Penstock.
"""

import json
import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
spark.range(1000).write.mode("overwrite").saveAsTable("from_a_session")
doubled = udf(lambda number: number * 2, "long")
report = {
    "sum": spark.sql("select sum(id) from from_a_session").collect()[0][0],
    "doubled": spark.table("from_a_session").select(doubled("id").alias("twice")).agg({"twice": "max"}).collect()[0][0],
    "pandas": spark.range(3).toPandas()["id"].tolist(),
    "version": spark.version,
}
spark.sql("drop table from_a_session")
# The table's name is free again at once, whichever directories the table had.
for _ in range(2):
    spark.range(10).selectExpr("id", "id % 2 as part").write.partitionBy("part").saveAsTable("from_a_session")
    report["rows"] = spark.table("from_a_session").count()
    spark.sql("drop table from_a_session")


def refusal(address: str) -> str:
    try:
        SparkSession.builder.remote(address).create().range(1).collect()
    except Exception as error:
        return str(error)
    return "not refused"


if sys.argv[2:]:
    report["refusals"] = [refusal(address) for address in sys.argv[2:]]
print(json.dumps(report))

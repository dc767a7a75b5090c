package io.penstock.skipping.index

import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.filter.{FileFilter, Keys}

/** From a built index to the one that a scan is given. */
class ScanTest extends AnyFunSuite with IndexedFiles {

  private def partitioned(name: String): String = {
    spark
      .range(0, 1000, 1, 4)
      .selectExpr(
        "id",
        "cast(id * 7919 % 1000 AS int) AS scattered",
        "concat('name ', id % 3) AS name",
        "id div 500 AS half"
      )
      .write
      .partitionBy("half")
      .parquet(at(name))
    at(name)
  }

  test("the columns worth it are chosen, and a scan finds the files that hold a value") {
    val path = partitioned("chosen")
    IndexMaintenance.build(spark, table(path))
    val index = found(path).get
    assert(index.files == 4)
    assert(index.columns.map(_.name) == Seq("id"))
    assert(index.select(FileFilter.Among("id", Keys.Integral.points(Array(10L)))).cardinality == 1)
    val described = IndexMaintenance.show(spark, table(path)).get
    assert(described.columns.map(_.planned.column.name) == Seq("id"))
    assert(described.leftOut.map(_.name) == Seq("scattered", "name"))
  }

  test("a scan of one partition finds the index of the whole table") {
    val path = partitioned("partition")
    build(path, Seq("id"))
    assert(found(path + "/half=1").map(_.root) == found(path).map(_.root))
  }

  test("a column that the scan reads as another type is not in its index") {
    val path = partitioned("typed")
    build(path, Seq("id", "name"))
    val read = spark.read.schema("id INT, name STRING, half LONG").parquet(path)
    val relation = read.queryExecution.analyzed.collectFirst {
      case org.apache.spark.sql.execution.datasources
            .LogicalRelation(relation: org.apache.spark.sql.execution.datasources.HadoopFsRelation, _, _, _, _) =>
        relation
    }.get
    val index = IndexCatalog.find(spark, relation).get
    assert(index.columns.map(_.name) == Seq("name"))
    assert(index.column("id").isEmpty)
  }

  test("a table without an index has none, and one that gets it is found at once by the session that built it") {
    val path = partitioned("late")
    assert(found(path).isEmpty)
    build(path, Seq("id"))
    assert(found(path).isDefined)
    assert(IndexMaintenance.drop(spark, table(path)))
    assert(!IndexMaintenance.drop(spark, table(path)))
    assert(found(path).isEmpty)
  }

  test("a catalog's table is found by its name, and what is no Parquet table is refused in words") {
    spark.range(0, 10).write.format("parquet").saveAsTable("named")
    spark.range(0, 10).write.format("json").saveAsTable("other_format")
    assert(IndexedTable.of(spark, Seq("default", "named")).columns.map(_.name) == Seq("id"))
    val refused = intercept[IllegalArgumentException](IndexedTable.of(spark, Seq("other_format")))
    assert(refused.getMessage.contains("not a Parquet table"))
  }
}

package io.penstock.skipping.index

import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.LocalSpark
import io.penstock.skipping.filter.{FileFilter, Keys}

class IndexTest extends AnyFunSuite with LocalSpark {

  private def at(name: String) = directory.resolve(name).toUri.toString

  private def write(name: String): String = {
    spark
      .range(0, 1000, 1, 4)
      .selectExpr("id", "cast(id % 7 as int) as seven", "concat('name ', id) as name", "id div 500 as half")
      .write
      .partitionBy("half")
      .parquet(at(name))
    at(name)
  }

  private def relation(path: String): HadoopFsRelation =
    spark.read
      .parquet(path)
      .queryExecution
      .analyzed
      .collectFirst { case LogicalRelation(relation: HadoopFsRelation, _, _, _, _) =>
        relation
      }
      .get

  test("a query's scan finds the index of its table, and in it the files that hold a value") {
    val path = write("found")
    val change = IndexMaintenance.build(spark, IndexedTable.at(spark, path))
    assert(change.read == 4)
    val index = IndexCatalog.find(spark, relation(path)).get
    assert(index.files == 4)
    assert(index.columns.map(_.name) == Seq("id", "seven", "name"))
    val selected = index.select(FileFilter.Among("id", Keys.Integral.points(Array(10L))))
    assert(selected.cardinality == 1)
    val partition = IndexCatalog.find(spark, relation(path + "/half=1"))
    assert(partition.map(_.root).contains(index.root))
    assert(IndexMaintenance.refresh(spark, IndexedTable.at(spark, path)).get.read == 0)
  }
}

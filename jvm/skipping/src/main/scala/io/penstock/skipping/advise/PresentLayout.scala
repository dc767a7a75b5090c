package io.penstock.skipping.advise

import java.util.BitSet

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.types.StructType

import io.penstock.skipping.filter.{Encoding, FileFilter, Keys}
import io.penstock.skipping.history.Condition
import io.penstock.skipping.index.{IndexCatalog, ListedFiles, TableIndex}
import io.penstock.skipping.layout.SourceTable

/**
 * What scans would read of a table as its files lie, where partitions are pruned and files skipped by its index: noted
 * scans may have been run before there was one, or without skipping, or of fewer rows than there are now.
 */
private[advise] class PresentLayout(partitions: Seq[PresentPartition], index: TableIndex) {

  private val indexed = index.columns.map(_.name).toSet

  /** Of the files that may hold what is asked for. */
  def bytes(asked: Seq[Condition]): Long = {
    val known = for (Condition(column, _, Some(keys)) <- asked) yield column -> keys
    val filters = for ((column, keys) <- known if indexed(column)) yield FileFilter.among(column, keys)
    val matching = index.select(FileFilter.and(filters))
    partitions.filter(_.mayHold(known)).map(_.bytes(matching)).sum
  }
}

/**
 * Files of the same values in the columns that the table is partitioned by.
 *
 * @param values
 *   those that can be told, by column; empty where it is null
 * @param numbers
 *   of the files in the index; -1 where it does not know one as it is
 * @param lengths
 *   of the same files, in bytes
 */
private[advise] case class PresentPartition(values: Map[String, Keys], numbers: Seq[Int], lengths: Seq[Long]) {

  def mayHold(asked: Seq[(String, Keys)]): Boolean =
    asked.forall { case (column, keys) => values.get(column).forall(!_.intersect(keys).isEmpty) }

  def bytes(matching: BitSet): Long =
    numbers.lazyZip(lengths).collect { case (number, length) if number < 0 || matching.get(number) => length }.sum
}

private[advise] object PresentLayout {

  /** None where the table has no index: then nothing tells what the best is that can be had of its files. */
  def of(spark: SparkSession, table: SourceTable): Option[PresentLayout] =
    IndexCatalog.find(spark, table.relation).map { index =>
      val listedFiles = new ListedFiles(index)
      val partitions = table.relation.location.listFiles(Nil, Nil).map { listed =>
        val values = listed.values.toSeq(table.relation.partitionSchema)
        PresentPartition(
          keys(table.relation.partitionSchema, values),
          listed.files.map(listedFiles.number),
          listed.files.map(_.getLen)
        )
      }
      new PresentLayout(partitions, index)
    }

  private def keys(columns: StructType, values: Seq[Any]): Map[String, Keys] = {
    for {
      (column, value) <- columns.zip(values)
      encoding <- Encoding.of(column.dataType, column.dataType)
    } yield column.name -> encoding.points(Option(value).iterator)
  }.toMap
}

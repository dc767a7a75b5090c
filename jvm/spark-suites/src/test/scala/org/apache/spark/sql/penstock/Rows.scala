package org.apache.spark.sql.penstock

import org.apache.spark.rdd.{ParallelCollectionRDD, RDD}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan}
import org.apache.spark.sql.classic.{Dataset, SparkSession => ClassicSession}
import org.apache.spark.sql.types.{ArrayType, LongType}
import org.apache.spark.sql.{DataFrame, SparkSession}

/** Rows and plans in each other's form, which Spark keeps to its own packages. */
object Rows {

  /** Whether these are the driver's own values, which are the same each time. */
  def isParallelized(rdd: RDD[_]): Boolean = rdd.isInstanceOf[ParallelCollectionRDD[_]]

  def of(spark: SparkSession, plan: LogicalPlan): Seq[InternalRow] =
    Dataset.ofRows(classic(spark), plan).queryExecution.executedPlan.executeCollect().toSeq

  /**
   * The rows, to be written to so many files, with one more column that makes each file larger than the next one: Spark
   * reads large files first, so that queries find the rows in their order.
   */
  def descending(spark: SparkSession, columns: Seq[Attribute], rows: Seq[InternalRow], files: Int): DataFrame = {
    val unsafe = UnsafeProjection.create(columns, columns)
    val sizes = rows.map(unsafe(_).getSizeInBytes)
    // More than two files differ by: the values once, and the bounds that Parquet repeats.
    val step = (sizes.sum + 16 * sizes.max) / java.lang.Long.BYTES
    val first = (0 until files.min(rows.size)).map(file => file * rows.size / files.min(rows.size))
    def padding(i: Int) = UnsafeArrayData.fromPrimitiveArray(Array.range(0, first.count(_ > i) * step).map(_.toLong))
    val padded = rows.zipWithIndex.map { case (row, i) =>
      new JoinedRow(row, InternalRow(if (first.contains(i)) padding(i) else null))
    }
    val all = columns.map(_.newInstance()) :+ AttributeReference("padding", ArrayType(LongType))()
    Dataset.ofRows(classic(spark), new LocalRelation(all, padded, false, None))
  }

  private def classic(spark: SparkSession) = spark.asInstanceOf[ClassicSession]
}

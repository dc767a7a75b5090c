package org.apache.spark.sql.penstock

import org.apache.spark.rdd.{ParallelCollectionRDD, RDD}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan}
import org.apache.spark.sql.classic.{Dataset, SparkSession => ClassicSession}
import org.apache.spark.sql.{DataFrame, SparkSession}

/** Rows and plans in each other's form, which Spark keeps to its own packages. */
object Rows {

  /** Whether these are the driver's own values, which are the same each time. */
  def isParallelized(rdd: RDD[_]): Boolean = rdd.isInstanceOf[ParallelCollectionRDD[_]]

  def of(spark: SparkSession, plan: LogicalPlan): Seq[InternalRow] =
    Dataset.ofRows(classic(spark), plan).queryExecution.executedPlan.executeCollect().toSeq

  def frame(spark: SparkSession, columns: Seq[Attribute], rows: Seq[InternalRow]): DataFrame =
    Dataset.ofRows(classic(spark), new LocalRelation(columns.map(_.newInstance()), rows, false, None))

  private def classic(spark: SparkSession) = spark.asInstanceOf[ClassicSession]
}

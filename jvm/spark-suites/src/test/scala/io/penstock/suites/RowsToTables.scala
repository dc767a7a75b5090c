package io.penstock.suites

import java.util.UUID
import java.util.concurrent.atomic.LongAdder

import scala.collection.mutable

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.catalyst.plans.logical.{Command, LocalRelation, LogicalPlan, SerializeFromObject}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.ExternalRDD
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.datasources.{
  FileStatusCache,
  HadoopFsRelation,
  InMemoryFileIndex,
  LogicalRelation
}
import org.apache.spark.sql.penstock.Rows
import org.apache.spark.sql.types._
import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}

/** Queries find the rows that a suite has in memory in Parquet tables of several files. */
class RowsToTables extends (SparkSessionExtensions => Unit) {

  // Before the optimizer, and not in the analyzed plan, which suites look at.
  override def apply(extensions: SparkSessionExtensions): Unit =
    extensions.injectPlanNormalizationRule(new RowsToTables.Tabled(_))
}

object RowsToTables {

  val Enabled = "spark.penstock.suites.rows.to.tables"

  /** Where the tables are, as a URI. */
  val Directory = "spark.penstock.suites.tables"

  val Files = 3

  /** Tables that were written, and scans of them in queries. */
  val tables, scans = new LongAdder

  private case class Content(columns: Seq[(String, DataType)], rows: Seq[InternalRow])

  private val written = mutable.Map.empty[(String, Content), Path]

  private class Tabled(session: SparkSession) extends Rule[LogicalPlan] {

    override def apply(plan: LogicalPlan): LogicalPlan =
      if (session.conf.get(Enabled, "false") != "true" || plan.exists(_.isInstanceOf[Command])) plan
      else
        plan.transformDownWithSubqueries {
          case local: LocalRelation if !local.isStreaming && fits(local.output) => table(local, local.data)
          case parallelized @ SerializeFromObject(_, ExternalRDD(_, rdd))
              if Rows.isParallelized(rdd) && fits(parallelized.output) =>
            table(parallelized, Rows.of(Tables.session(session), parallelized))
        }

    private def fits(output: Seq[org.apache.spark.sql.catalyst.expressions.Attribute]): Boolean = {
      val names = output.map(_.name.toLowerCase)
      output.nonEmpty && names.forall(_.nonEmpty) && names.distinct.size == names.size &&
      output.forall(column => column.isInstanceOf[AttributeReference] && isStorable(column.dataType))
    }

    private def table(plan: LogicalPlan, rows: Seq[InternalRow]): LogicalPlan =
      if (rows.sizeIs < 2) plan
      else {
        val schema = DataTypeUtils.fromAttributes(plan.output)
        val path = store(Content(plan.output.map(column => (column.name, column.dataType)), rows), plan)
        val files = new InMemoryFileIndex(
          session,
          Seq(path),
          Map.empty,
          Some(schema),
          FileStatusCache.getOrCreate(session),
          None,
          None
        )
        val relation = HadoopFsRelation(files, new StructType, schema, None, new ParquetFileFormat, Map.empty)(session)
        scans.increment()
        LogicalRelation(relation, plan.output.map(_.asInstanceOf[AttributeReference]), None, false, None)
      }

    private def store(content: Content, plan: LogicalPlan): Path = {
      val directory = session.conf.get(Directory)
      written.synchronized {
        written.getOrElseUpdate(
          (directory, content), {
            val path = new Path(directory, UUID.randomUUID.toString)
            Rows.descending(Tables.session(session), plan.output, content.rows, Files).write.parquet(path.toString)
            tables.increment()
            path
          }
        )
      }
    }
  }

  private val format = new ParquetFileFormat

  private def isStorable(kind: DataType): Boolean = kind match {
    case NullType | VariantType | CalendarIntervalType => false
    case ArrayType(element, _) => isStorable(element)
    case MapType(key, value, _) => isStorable(key) && isStorable(value)
    case StructType(fields) => fields.nonEmpty && fields.forall(field => isStorable(field.dataType))
    case _: UserDefinedType[_] => false
    case other => format.supportDataType(other)
  }
}

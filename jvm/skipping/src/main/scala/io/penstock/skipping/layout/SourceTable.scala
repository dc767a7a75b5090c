package io.penstock.skipping.layout

import java.lang.reflect.InvocationTargetException

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.plans.logical.View
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.types._
import org.apache.spark.sql.{DataFrame, SparkSession}

import io.penstock.skipping.index.TableListing
import io.penstock.skipping.model.Domain

/**
 * A Parquet table as the source of advice on its layout or of a rewrite: a catalog's, or parquet.`path`.
 *
 * @param root
 *   the directory of its files, qualified
 * @param entry
 *   the table in the catalog
 * @param version
 *   the commit version of the listed files, where a rewrite may replace the table atomically by rows that it reads from
 *   it
 */
class SourceTable private (
    val name: Seq[String],
    val root: Path,
    val entry: Option[CatalogTable],
    private[skipping] val relation: HadoopFsRelation,
    val version: Option[Long]
) {

  import SourceTable._

  val sqlName: String = name.map(Layout.quoted).mkString(".")

  val partitionColumns: Seq[String] = relation.partitionSchema.fieldNames.toSeq

  /** All rows as stored, without the padding of CHAR columns. */
  val frame: DataFrame = relation.sparkSession.baseRelationToDataFrame(relation)

  private lazy val listed = TableListing.list(root, frame.sparkSession.sessionState.newHadoopConf())

  def files: Int = listed.size

  def bytes: Long = listed.map(_.length).sum

  /** The number of rows, from the files' footers. */
  lazy val rows: Long = frame.count()

  /** A value that changes with every file of the table. */
  def state: Set[Any] = TableListing.list(root, frame.sparkSession.sessionState.newHadoopConf()).toSet

  /** A column by a user's name for it. Throws an `IllegalArgumentException` where there is none. */
  def column(asked: String): StructField = {
    val resolver = frame.sparkSession.sessionState.conf.resolver
    frame.schema.find(field => resolver(field.name, asked)).getOrElse {
      throw new IllegalArgumentException(
        s"$sqlName has no column $asked: it has ${frame.columns.mkString(", ")}"
      )
    }
  }

  /** Whether files can be skipped by ranges of the column. */
  def canBeRanged(field: StructField): Boolean = Domain.of(field.dataType).isDefined

  /**
   * Whether names of directories preserve the column's values, also for sessions in other time zones and, without a
   * catalog, for inferred types.
   */
  def canPartition(field: StructField): Boolean = field.dataType match {
    case IntegerType | DateType => true
    case ByteType | ShortType | LongType | BooleanType | StringType => entry.isDefined
    case _ => false
  }

  /** A uniform sample of about `SampleRows` rows of these columns, which it reads whole. */
  def sample(columns: Seq[String]): Seq[Seq[Any]] = {
    val fraction = math.min(1.0, SampleRows.toDouble / math.max(rows, 1))
    val chosen = frame.select(columns.map(name => frame.col(Layout.quoted(name))): _*)
    val types = chosen.schema.map(_.dataType)
    val sampled = if (fraction < 1) chosen.sample(fraction, Seed) else chosen
    sampled.queryExecution.toRdd.map(_.copy()).collect().toSeq.map(_.toSeq(types))
  }
}

object SourceTable {

  private val SampleRows = 20000
  private val Seed = 1L

  /**
   * The table of this name. Throws an `IllegalArgumentException` where it is not a Parquet table, and Spark's exception
   * where there is none.
   */
  def of(spark: SparkSession, name: Seq[String]): SourceTable = at(spark, name, None)

  /**
   * The table as [[of]] has it, for a rewrite: with its present files, and the version that shows a later change.
   */
  def toReplace(spark: SparkSession, name: Seq[String]): SourceTable = {
    val known = of(spark, name)
    val version = CommitVersion.of(spark, known.root)
    // The session may have listed the table long ago; a listing from here on is of this version or a later one.
    known.entry.foreach(table => spark.sessionState.catalog.refreshTable(table.identifier))
    spark.catalog.refreshByPath(known.root.toString)
    at(spark, name, version)
  }

  private def at(spark: SparkSession, name: Seq[String], version: Option[Long]): SourceTable = {
    val sqlName = name.map(Layout.quoted).mkString(".")
    val plan = spark.table(sqlName).queryExecution.analyzed
    def refused(why: String) = throw new IllegalArgumentException(
      s"$sqlName has no layout to speak of: $why. Name a Parquet table, or parquet.`PATH`"
    )
    if (plan.exists(_.isInstanceOf[View])) refused("it is a view")
    plan.collectLeaves() match {
      case Seq(LogicalRelation(relation: HadoopFsRelation, _, entry, _, _))
          if relation.fileFormat.isInstanceOf[ParquetFileFormat] =>
        if (relation.bucketSpec.isDefined) refused("it is bucketed")
        val path = entry.fold(relation.location.rootPaths.head)(table => new Path(table.location))
        val root = path.getFileSystem(spark.sessionState.newHadoopConf()).makeQualified(path)
        new SourceTable(name, root, entry, relation, version)
      case _ => refused("its files are not read by Spark's own Parquet source")
    }
  }
}

/**
 * The commit versions of `io.penstock.fs`, where that is the session's commit protocol: it deletes replaced files when
 * a job commits, not before the job reads them, and orders concurrent jobs. It is found by name, since each of the two
 * modules works without the other.
 */
private[layout] object CommitVersion {

  private val Protocol = "io.penstock.fs.commit.AtomicCommitProtocol"
  private val Versions = "io.penstock.fs.commit.TableVersion"

  /** The option of a write that fails its commit where the table then has another version. */
  val Expected = "fs.s3a.penstock.commit.expected.version"

  /** The table's version; None under another commit protocol. Throws an `IOException` where the store fails. */
  def of(spark: SparkSession, root: Path): Option[Long] =
    Option.when(root.toUri.getScheme == "s3a" && spark.sessionState.conf.fileCommitProtocolClass == Protocol) {
      val versions = Class.forName(Versions, true, Thread.currentThread.getContextClassLoader)
      val of = versions.getMethod("of", classOf[Path], classOf[Configuration])
      try of.invoke(null, root, spark.sessionState.newHadoopConf()).asInstanceOf[Long]
      catch { case e: InvocationTargetException => throw e.getCause }
    }
}

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
 * A Parquet table whose layout is to be judged or changed: a catalog's, or parquet.`path`.
 *
 * @param root
 *   the directory of its files, qualified
 * @param entry
 *   in the catalog
 * @param version
 *   of the table's commits that its files were listed at, if it is to be replaced at once by what is read from it
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

  /** All of its rows as they are stored: characters are not padded. */
  val frame: DataFrame = relation.sparkSession.baseRelationToDataFrame(relation)

  private lazy val listed = TableListing.list(root, frame.sparkSession.sessionState.newHadoopConf())

  def files: Int = listed.size

  def bytes: Long = listed.map(_.length).sum

  /** From the files' footers. */
  lazy val rows: Long = frame.count()

  /** What changes whenever a file of the table does. */
  def state: Set[Any] = TableListing.list(root, frame.sparkSession.sessionState.newHadoopConf()).toSet

  /** A column by the name a user gives it. Throws an `IllegalArgumentException` where there is none. */
  def column(asked: String): StructField = {
    val resolver = frame.sparkSession.sessionState.conf.resolver
    frame.schema.find(field => resolver(field.name, asked)).getOrElse {
      throw new IllegalArgumentException(
        s"$sqlName has no column $asked: it has ${frame.columns.mkString(", ")}"
      )
    }
  }

  /** Whether ranges of it tell which files to skip. */
  def canBeRanged(field: StructField): Boolean = Domain.of(field.dataType).isDefined

  /**
   * Whether directories can name its values and give them back: in a session of another time zone too, and without a
   * catalog, where types are guessed.
   */
  def canPartition(field: StructField): Boolean = field.dataType match {
    case IntegerType | DateType => true
    case ByteType | ShortType | LongType | BooleanType | StringType => entry.isDefined
    case _ => false
  }

  /** About `SampleRows` rows of these columns, every row as likely as another. Reads these columns whole. */
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
   * Throws an `IllegalArgumentException` for what is no Parquet table, and what Spark throws where there is nothing.
   */
  def of(spark: SparkSession, name: Seq[String]): SourceTable = at(spark, name, None)

  /**
   * As [[of]], of a table that is to be replaced: with the files that it has now, and what tells whether it changed.
   */
  def toReplace(spark: SparkSession, name: Seq[String]): SourceTable = {
    val known = of(spark, name)
    val version = CommitVersion.of(spark, known.root)
    // The session may have listed it long ago; what is listed from here on is of this version, or a later one.
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
 * The commits of `io.penstock.fs`, where that is the session's commit protocol: it deletes what a job replaces when the
 * job is committed, not before the job reads it, and knows which of two jobs came first. By its names, since each of
 * the two plug-ins is there without the other.
 */
private[layout] object CommitVersion {

  private val Protocol = "io.penstock.fs.commit.AtomicCommitProtocol"
  private val Versions = "io.penstock.fs.commit.TableVersion"

  /** Option of a write, which fails where the table has another version when it is committed. */
  val Expected = "fs.s3a.penstock.commit.expected.version"

  /** None where the table is committed to otherwise. Throws an `IOException` where its store cannot be asked. */
  def of(spark: SparkSession, root: Path): Option[Long] =
    Option.when(root.toUri.getScheme == "s3a" && spark.sessionState.conf.fileCommitProtocolClass == Protocol) {
      val versions = Class.forName(Versions, true, Thread.currentThread.getContextClassLoader)
      val of = versions.getMethod("of", classOf[Path], classOf[Configuration])
      try of.invoke(null, root, spark.sessionState.newHadoopConf()).asInstanceOf[Long]
      catch { case e: InvocationTargetException => throw e.getCause }
    }
}

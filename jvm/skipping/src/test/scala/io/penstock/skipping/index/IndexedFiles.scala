package io.penstock.skipping.index

import java.nio.file.{Files, Path => LocalPath}
import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.{FSDataInputStream, Path}
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.scalatest.{Assertions, Suite}

import io.penstock.skipping.build.{Change, IndexMaintenance, IndexedTable}
import io.penstock.skipping.{LocalSpark, PlainLocalFileSystem}

/** Tables of a suite, and what their indexes hold. */
trait IndexedFiles extends LocalSpark { this: Suite with Assertions =>

  protected def at(name: String): String = directory.resolve(name).toUri.toString

  /** The table's place, written as the session is set. */
  protected def write(name: String, rows: DataFrame): String = {
    rows.write.parquet(at(name))
    at(name)
  }

  protected def build(path: String, columns: Seq[String], kinds: Kind*): Change =
    IndexMaintenance.build(spark, table(path), Some(columns), Option.when(kinds.nonEmpty)(kinds.toSet))

  protected def refresh(path: String): Change = IndexMaintenance.refresh(spark, table(path)).get

  protected def table(path: String): IndexedTable = IndexedTable.at(spark, path)

  protected def store(path: String): IndexStore =
    new IndexStore(table(path).root, spark.sessionState.newHadoopConf())

  protected def entries(path: String): Seq[FileEntry] = {
    val manifest = store(path).read().get
    store(path).entries(manifest, manifest.plan.map(_.column)).toVector
  }

  /** What is recorded of a column in the one file of a table. */
  protected def recorded(path: String, column: String, kinds: Kind*): Option[ColumnEntry] = {
    build(path, Seq(column), kinds: _*)
    entries(path).map(_.columns.get(column)).reduce((_, _) => fail("the table has more than one file"))
  }

  protected def found(path: String): Option[TableIndex] = IndexCatalog.find(
    spark,
    spark.read
      .parquet(path)
      .queryExecution
      .analyzed
      .collectFirst { case LogicalRelation(relation: HadoopFsRelation, _, _, _, _) => relation }
      .get
  )

  /** A table's files on the disk, its index's among them. */
  protected def files(path: String): Seq[LocalPath] = {
    val walk = Files.walk(LocalPath.of(new Path(path).toUri.getPath))
    try walk.iterator.asScala.filter(Files.isRegularFile(_)).toVector
    finally walk.close()
  }
}

/** The local files, noting which are opened. */
class OpenedFiles extends PlainLocalFileSystem {
  override def open(file: Path, bufferSize: Int): FSDataInputStream = {
    OpenedFiles.names.add(file.getName)
    super.open(file, bufferSize)
  }
}

object OpenedFiles {
  private val names = new ConcurrentLinkedQueue[String]

  // Other suites of this process have their own local file system in Hadoop's cache.
  val settings: Map[String, String] = Map(
    "spark.hadoop.fs.file.impl" -> classOf[OpenedFiles].getName,
    "spark.hadoop.fs.file.impl.disable.cache" -> "true"
  )

  /** The names of the files that were opened meanwhile. */
  def during[A](action: => A): (A, Seq[String]) = {
    names.clear()
    val result = action
    (result, names.asScala.toVector)
  }
}

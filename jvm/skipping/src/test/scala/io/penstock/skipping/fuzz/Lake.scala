package io.penstock.skipping.fuzz

import java.nio.file.attribute.FileTime
import java.nio.file.{Files, Path, StandardCopyOption}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.FileUtil
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
import org.apache.spark.sql.{Row, SparkSession}

/**
 * The tables' files. Their names and times are ours, so that a world is the same each time it is made, and all times
 * are long past: an index takes nothing for granted of a file that might still be changing.
 *
 * The sessions' file system for `file:` is the plain one, since files change their names and contents under it.
 */
final class Lake(session: SparkSession, directory: Path) {

  private val files = mutable.Map.empty[String, Vector[Path]].withDefaultValue(Vector.empty)
  private var batches = 0
  private var clock = System.currentTimeMillis() / 1000 - 24 * 3600

  def root(table: Table): Path = directory.resolve(table.name)

  def count(table: Table): Int = files(table.name).size

  /** Adds the files of a batch to the table. */
  def add(table: Table, batch: Batch): Unit = {
    batches += 1
    val written = write(batch)
    files(table.name) ++= written.map { case (number, file) =>
      val home = (table.partition, batch.files(number).partition) match {
        case (Some(column), Some(value)) => root(table).resolve(partitionDirectory(column, value))
        case _ => root(table)
      }
      Files.createDirectories(home)
      place(file, home.resolve(f"b$batches%02d-$number%03d.parquet"))
    }
  }

  /** Puts the first file of a batch in the place of one of the table's, as an overwritten object. */
  def replace(table: Table, number: Int, batch: Batch): Unit =
    for ((_, file) <- write(batch).headOption) place(file, files(table.name)(number))

  def delete(table: Table, number: Int): Unit = {
    Files.delete(files(table.name)(number))
    files(table.name) = files(table.name).patch(number, Nil, 1)
  }

  private def place(file: Path, target: Path): Path = {
    clock += 1
    Files.move(file, target, StandardCopyOption.REPLACE_EXISTING)
    Files.setLastModifiedTime(target, FileTime.fromMillis(clock * 1000))
  }

  /** By the number of their rows in the batch; a file without rows may not have been written. */
  private def write(batch: Batch): Seq[(Int, Path)] = {
    val staging = Files.createTempDirectory(directory, "_staging")
    val (settings, options) = batch.settings.partition(_._1.startsWith("spark."))
    val writer = session.newSession()
    settings.foreach { case (name, value) => writer.conf.set(name, value) }
    val parts = batch.files.map(_.rows)
    val rows = writer.sparkContext.parallelize(parts, math.max(1, parts.size)).flatMap(identity[Seq[Row]] _)
    writer
      .createDataFrame(rows, Table.schema(batch.columns))
      .write
      .options(options)
      .mode("overwrite")
      .parquet(staging.toUri.toString)
    val found = Files.list(staging).iterator().asScala.toVector.filter(_.getFileName.toString.startsWith("part-"))
    found.map(file => file.getFileName.toString.slice(5, 10).toInt -> file).sortBy(_._1)
  }

  private def partitionDirectory(column: Column, value: Any): String =
    ExternalCatalogUtils.getPartitionPathString(column.name, if (value == null) null else value.toString)

  def remove(): Unit = FileUtil.fullyDelete(directory.toFile)

  /** For the account of a failure. */
  def listing(table: Table): Seq[String] = files(table.name).map { file =>
    s"${root(table).relativize(file)} ${Files.size(file)} ${Files.getLastModifiedTime(file)}"
  }
}

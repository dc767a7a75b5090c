package io.penstock.skipping

import java.nio.file.{Files, Path}

import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.fs.{FileStatus, FileSystem, FileUtil, Path => HadoopPath, RawLocalFileSystem}
import org.apache.spark.sql.SparkSession
import org.scalatest.{BeforeAndAfterAll, Suite}

/** A Spark session in this process with the extension, a catalog in memory and a directory of its own. */
trait LocalSpark extends BeforeAndAfterAll { this: Suite =>

  lazy val directory: Path = Files.createTempDirectory("penstock-test")

  /** A suite's own, beside those below. */
  protected def settings: Map[String, String] = Map.empty

  lazy val spark: SparkSession = {
    val builder = SparkSession
      .builder()
      .master("local[2]")
      .config("spark.sql.extensions", classOf[SkippingExtension].getName)
      .config("spark.ui.enabled", "false")
      .config("spark.sql.shuffle.partitions", "2")
      .config("spark.sql.catalogImplementation", "in-memory")
      .config("spark.sql.warehouse.dir", directory.resolve("warehouse").toUri.toString)
      .config("spark.driver.bindAddress", "127.0.0.1")
      .config("spark.driver.host", "127.0.0.1")
      .config("spark.hadoop.fs.file.impl", classOf[PlainLocalFileSystem].getName)
    settings.foreach { case (key, value) => builder.config(key, value) }
    builder.getOrCreate()
  }

  override def afterAll(): Unit = {
    spark.stop()
    // Hadoop would give the next suite this one's file system, whatever its own settings say.
    FileSystem.closeAll()
    FileUtil.fullyDelete(directory.toFile)
    super.afterAll()
  }
}

/**
 * The local file system without check sums and permissions. Where Hadoop's native library is missing, its own starts a
 * process for each file: `ls` for one that is listed, `chmod` for one that is made.
 */
class PlainLocalFileSystem extends RawLocalFileSystem {

  override def getScheme: String = getUri.getScheme

  override def setPermission(path: HadoopPath, permission: FsPermission): Unit = ()

  override def getFileStatus(path: HadoopPath): FileStatus = plain(super.getFileStatus(path))

  override def listStatus(path: HadoopPath): Array[FileStatus] = super.listStatus(path).map(plain)

  private def plain(status: FileStatus): FileStatus = new FileStatus(
    status.getLen,
    status.isDirectory,
    status.getReplication.toInt,
    status.getBlockSize,
    status.getModificationTime,
    status.getPath
  )
}

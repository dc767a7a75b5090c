package io.penstock.skipping

import java.nio.file.{Files, Path}

import org.apache.hadoop.fs.{FileSystem, FileUtil}
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

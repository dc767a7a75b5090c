package io.penstock.workloads

import java.nio.file.{Files, Path}

import org.apache.spark.sql.SparkSession
import org.scalatest.{BeforeAndAfterAll, Suite}

/** A Spark session in this process, with a catalog in memory and a directory of its own. */
trait LocalSpark extends BeforeAndAfterAll { this: Suite =>

  lazy val directory: Path = Files.createTempDirectory("penstock-test")

  lazy val spark: SparkSession = SparkSession
    .builder()
    .master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.catalogImplementation", "in-memory")
    .config("spark.sql.warehouse.dir", directory.resolve("warehouse").toUri.toString)
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .getOrCreate()

  override def afterAll(): Unit = {
    spark.stop()
    org.apache.hadoop.fs.FileUtil.fullyDelete(directory.toFile)
    super.afterAll()
  }
}

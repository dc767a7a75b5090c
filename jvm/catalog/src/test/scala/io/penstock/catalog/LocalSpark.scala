package io.penstock.catalog

import java.nio.file.{Files, Path}

import org.apache.commons.io.FileUtils
import org.apache.spark.sql.classic.SparkSession

object LocalSpark {

  /** Runs a test with a session in this process, and a directory for its tables. */
  def using[A](settings: (String, String)*)(test: (SparkSession, Path) => A): A = {
    val warehouse = Files.createTempDirectory("warehouse")
    val builder = SparkSession
      .builder()
      .master("local[1]")
      .config("spark.ui.enabled", "false")
      .config("spark.driver.bindAddress", "127.0.0.1")
      .config("spark.driver.host", "127.0.0.1")
      .config("spark.sql.warehouse.dir", warehouse.toString)
    val session = settings.foldLeft(builder) { case (made, (name, value)) => made.config(name, value) }.getOrCreate()
    try test(session, warehouse)
    finally {
      session.stop()
      FileUtils.deleteDirectory(warehouse.toFile)
    }
  }
}

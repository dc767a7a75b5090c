package io.penstock.suites

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.s3a.S3AFileSystem

import io.penstock.fs.PenstockFileSystem
import io.penstock.fs.cache.CacheSettings
import io.penstock.fs.testing.{Store, Trees}

/** Spark's settings for the embedded store: as Penstock's profiles have them, or plain S3A that renames. */
private[suites] object StoreSettings {

  private lazy val bucket = Store.newBucket()

  private lazy val tiers: Path = {
    val directory = Files.createTempDirectory("penstock-suites-pages-")
    sys.addShutdownHook(Trees.delete(directory))
    directory
  }

  def of(suite: String): Map[String, String] = {
    val connection = Store.conf().asScala.map(e => e.getKey -> e.getValue).filter(_._1.startsWith("fs.s3a.")).toMap
    spark(connection ++ (if (Arm.isPenstock) penstock else plain)) ++ Map(
      "spark.hadoop.fs.defaultFS" -> s"s3a://${bucket.name}",
      "spark.sql.warehouse.dir" -> bucket.path(s"warehouse/$suite").toString,
      RowsToTables.Directory -> bucket.path("rows").toString
    ) ++ Option.when(Arm.isPenstock)("spark.sql.sources.commitProtocolClass" -> classOf[IndexedAtomicCommits].getName)
  }

  private def spark(hadoop: Map[String, String]) = hadoop.map { case (name, value) => s"spark.hadoop.$name" -> value }

  private def plain = Map("fs.s3a.impl" -> classOf[S3AFileSystem].getName)

  private def penstock = Map(
    "fs.s3a.impl" -> classOf[PenstockFileSystem].getName,
    "fs.s3a.committer.magic.enabled" -> "true",
    "fs.s3a.committer.name" -> "magic",
    "fs.s3a.committer.magic.track.commits.in.memory.enabled" -> "true",
    "fs.s3a.create.conditional.enabled" -> "true",
    "fs.s3a.input.stream.type" -> "custom",
    "fs.s3a.input.stream.custom.factory" -> "io.penstock.fs.read.PageStreamFactory",
    "parquet.hadoop.vectored.io.enabled" -> "true",
    "parquet.page.verify-checksum.enabled" -> "true",
    CacheSettings.MemoryDirectory -> tiers.resolve("memory").toString,
    CacheSettings.MemorySize -> "256M",
    CacheSettings.DiskSize -> "0"
  )
}

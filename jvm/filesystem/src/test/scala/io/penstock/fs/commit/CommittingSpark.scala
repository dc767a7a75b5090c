package io.penstock.fs.commit

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession

import io.penstock.fs.testing.Store

/** Spark in this JVM, writing to the tests' store as a user's Spark does. */
object CommittingSpark {

  def settings(protocol: Class[_ <: AtomicCommitProtocol]): Map[String, String] =
    Store
      .conf()
      .asScala
      .iterator
      .map(e => e.getKey -> e.getValue)
      .filter(_._1.startsWith("fs.s3a."))
      .map { case (name, value) =>
        s"spark.hadoop.$name" -> value
      }
      .toMap ++ Map(
      "spark.sql.sources.commitProtocolClass" -> protocol.getName,
      "spark.sql.sources.partitionOverwriteMode" -> "dynamic",
      "spark.hadoop.fs.s3a.committer.magic.track.commits.in.memory.enabled" -> "true",
      s"spark.hadoop.${JobOutput.Patience}" -> "200ms",
      "spark.ui.enabled" -> "false",
      "spark.sql.shuffle.partitions" -> "2",
      "spark.sql.sources.parallelPartitionDiscovery.threshold" -> "1000",
      "spark.sql.catalogImplementation" -> "in-memory"
    )

  def start(
      master: String = "local[2, 2]",
      more: Map[String, String] = Map.empty,
      protocol: Class[_ <: AtomicCommitProtocol] = classOf[AtomicCommitProtocol]
  ): SparkSession = {
    val builder = SparkSession.builder().master(master).appName("commits")
    (settings(protocol) ++ more).foreach { case (name, value) => builder.config(name, value) }
    builder.getOrCreate()
  }
}

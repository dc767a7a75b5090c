package org.apache.spark.penstock

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}
import java.util.Properties

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.spark.SparkConf
import org.apache.spark.executor.CoarseGrainedExecutorBackend

import io.penstock.cluster.Endpoint

/** The door to Spark's executor, which is `private[spark]`. */
object ExecutorProcess {

  /**
   * Take over, from the driver's properties file, what an executor must know before it can ask the driver for the rest:
   * the network's settings and the secret. They become system properties of this process, where Spark looks and no
   * process list shows them.
   */
  def adopt(properties: Path): Unit = {
    val read = new Properties
    Using.resource(Files.newBufferedReader(properties, UTF_8))(read.load(_))
    for ((key, value) <- read.asScala if SparkConf.isExecutorStartupConf(key) || key.startsWith("spark.authenticate"))
      sys.props(key) = value.trim
  }

  /** Be an executor of the driver at `endpoint` until that driver ends it; does not return while it runs. */
  def run(endpoint: Endpoint, executorId: String, cores: Int, host: String): Unit =
    CoarseGrainedExecutorBackend.main(
      Array(
        "--driver-url",
        endpoint.driverUrl,
        "--executor-id",
        executorId,
        "--bind-address",
        host,
        "--hostname",
        host,
        "--cores",
        cores.toString,
        "--app-id",
        endpoint.applicationId,
        "--resourceProfileId",
        "0"
      )
    )
}

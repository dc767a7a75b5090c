package org.apache.spark.penstock

import scala.concurrent.duration._

import org.apache.spark.SparkEnv
import org.apache.spark.rpc.RpcTimeout
import org.apache.spark.storage.BlockManagerId
import org.apache.spark.storage.BlockManagerMessages.GetMemoryStatus

import io.penstock.fs.locality.NodeName

/** Here because Spark's list of executors is `private[spark]`. */
object ExecutorHosts {

  /** A driver too busy to answer has worse problems than a task on the wrong host. */
  private val Patience = new RpcTimeout(2.seconds, "penstock.formats")

  /**
   * The names executors of this JVM's application registered their hosts with, which are their nodes' where those are
   * known; none outside Spark. Asks the driver, from an executor too: that is where Spark lists tables of many
   * partitions.
   */
  def now(): Set[String] = registered().filterNot(_.isDriver).map(id => NodeName.of(id.topologyInfo).getOrElse(id.host))

  /** The identifiers of the executors that are there, the driver's own included. */
  def executors(): Set[String] = registered().map(_.executorId)

  private def registered(): Set[BlockManagerId] = Option(SparkEnv.get).toSet[SparkEnv].flatMap { env =>
    env.blockManager.master.driverEndpoint
      .askSync[Map[BlockManagerId, (Long, Long)]](GetMemoryStatus, Patience)
      .keySet
  }
}

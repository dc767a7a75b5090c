package org.apache.spark.penstock

import org.apache.spark.SparkEnv
import org.apache.spark.executor.CoarseGrainedExecutorBackend
import org.apache.spark.executor.CoarseGrainedExecutorBackend.Arguments
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.rpc.RpcEnv

/**
 * An executor in a pod that the scheduler knows by the name of its node: `--node NAME`, then the arguments of Spark's
 * own executor. Its blocks are fetched from its pod's address as ever (`--hostname`), but tasks go where pages are, and
 * those are on nodes: they outlive pods, and all executors of a node share them.
 */
object NodeExecutor {

  def main(arguments: Array[String]): Unit = arguments match {
    case Array("--node", node, rest @ _*) =>
      val spoken = CoarseGrainedExecutorBackend.parseArguments(rest.toArray, getClass.getName.stripSuffix("$"))
      CoarseGrainedExecutorBackend.run(spoken, on(node))
      System.exit(0)
    case _ => throw new IllegalArgumentException("--node NAME comes first")
  }

  private def on(node: String)(
      rpc: RpcEnv,
      spoken: Arguments,
      env: SparkEnv,
      profile: ResourceProfile
  ): CoarseGrainedExecutorBackend =
    new CoarseGrainedExecutorBackend(
      rpc,
      spoken.driverUrl,
      spoken.executorId,
      spoken.bindAddress,
      node,
      spoken.cores,
      env,
      spoken.resourcesFileOpt,
      profile
    )
}

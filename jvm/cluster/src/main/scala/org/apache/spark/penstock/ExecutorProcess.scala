package org.apache.spark.penstock

import io.penstock.cluster.Endpoint

import org.apache.spark.executor.CoarseGrainedExecutorBackend

/** The door to Spark's executor, which is `private[spark]`. */
object ExecutorProcess {

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

package org.apache.spark.penstock

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.{ExternalClusterManager, SchedulerBackend, TaskScheduler, TaskSchedulerImpl}

/**
 * The cluster manager behind `spark.master=local-penstock`: a driver whose executors are started by somebody else.
 *
 * It is in Spark's package because Spark's extension point for cluster managers is `private[spark]`. The name begins
 * with `local` because SparkSubmit refuses masters it does not know; SparkContext's own patterns (`local`, `local[n]`,
 * `local-cluster[…]`) do not match it, so it asks the external managers.
 */
private[spark] class LocalClusterManager extends ExternalClusterManager {

  override def canCreate(masterURL: String): Boolean = masterURL == LocalClusterManager.Master

  override def createTaskScheduler(context: SparkContext, masterURL: String): TaskScheduler =
    new TaskSchedulerImpl(context)

  override def createSchedulerBackend(
      context: SparkContext,
      masterURL: String,
      scheduler: TaskScheduler
  ): SchedulerBackend =
    new LocalSchedulerBackend(scheduler.asInstanceOf[TaskSchedulerImpl], context)

  override def initialize(scheduler: TaskScheduler, backend: SchedulerBackend): Unit =
    scheduler.asInstanceOf[TaskSchedulerImpl].initialize(backend)
}

private[spark] object LocalClusterManager {
  val Master = "local-penstock"
}

package org.apache.spark.penstock.cluster

import java.util.Properties

import org.apache.spark.executor.{ExecutorMetrics, TaskMetrics}
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.scheduler._
import org.apache.spark.scheduler.cluster.ExecutorInfo
import org.apache.spark.{Success, TaskEndReason, TaskState}

/** Spark's events as Spark would post them; here because most of their parts are `private[spark]`. */
object Events {

  def jobStart(id: Int, description: String): SparkListenerJobStart = {
    val properties = new Properties
    properties.setProperty("spark.job.description", description)
    SparkListenerJobStart(id, 0, Nil, properties)
  }

  def jobEnd(id: Int): SparkListenerJobEnd = SparkListenerJobEnd(id, 0, JobSucceeded)

  def stageSubmitted(id: Int, tasks: Int, attempt: Int = 0): SparkListenerStageSubmitted =
    SparkListenerStageSubmitted(stage(id, tasks, attempt))

  def stageCompleted(id: Int, tasks: Int, attempt: Int = 0): SparkListenerStageCompleted =
    SparkListenerStageCompleted(stage(id, tasks, attempt))

  def taskStart(stage: Int, launched: Long): SparkListenerTaskStart =
    SparkListenerTaskStart(stage, 0, info(launched))

  /** A task whose run time is all the time between launch and finish. */
  def taskEnd(
      stage: Int,
      reason: TaskEndReason,
      launched: Long,
      finished: Long,
      peakMemory: Long = 0,
      metrics: Option[TaskMetrics] = Some(new TaskMetrics)
  ): SparkListenerTaskEnd = {
    metrics.foreach { m =>
      m.setExecutorRunTime(finished - launched)
      m.setPeakExecutionMemory(peakMemory)
    }
    val ended = info(launched)
    ended.markFinished(if (reason == Success) TaskState.FINISHED else TaskState.FAILED, finished)
    SparkListenerTaskEnd(stage, 0, "ResultTask", reason, ended, new ExecutorMetrics, metrics.orNull)
  }

  def executorAdded(id: String): SparkListenerExecutorAdded =
    SparkListenerExecutorAdded(0, id, new ExecutorInfo("127.0.0.1", 2, Map.empty))

  def executorRemoved(id: String): SparkListenerExecutorRemoved = SparkListenerExecutorRemoved(0, id, "lost")

  private def info(launched: Long): TaskInfo =
    new TaskInfo(0, 0, 0, 0, launched, "0", "127.0.0.1", TaskLocality.ANY, false)

  private def stage(id: Int, tasks: Int, attempt: Int): StageInfo =
    new StageInfo(
      id,
      attempt,
      s"stage $id",
      tasks,
      Nil,
      Nil,
      "",
      resourceProfileId = ResourceProfile.DEFAULT_RESOURCE_PROFILE_ID
    )
}

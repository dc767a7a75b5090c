package io.penstock.cluster.observe

import org.apache.spark.executor.{ExecutorMetrics, TaskMetrics}
import org.apache.spark.scheduler._
import org.apache.spark.{Resubmitted, Success, TaskKilled}

/**
 * The state of an application as its Spark events give it: a pure fold, one step per event.
 *
 * Times are epoch milliseconds, zero while unknown. A task counts as done when it succeeded and as failed when it did
 * not; one that was killed (speculation, cancelled stage) is neither. A stage runs a task again whose output was lost
 * with its executor: the task then counts no more as one that the stage has done, and not as failed.
 */
final private[cluster] case class ApplicationState(
    applicationId: String = "",
    name: String = "",
    startedMs: Long = 0,
    endedMs: Long = 0,
    firstTaskLaunchedMs: Long = 0,
    firstTaskFinishedMs: Long = 0,
    activeJobs: Map[Int, String] = Map.empty,
    jobsDone: Int = 0,
    activeStages: Map[(Int, Int), ApplicationState.Stage] = Map.empty,
    stagesDone: Int = 0,
    tasksDone: Long = 0,
    tasksFailed: Long = 0,
    executors: Set[String] = Set.empty,
    work: ApplicationState.Work = ApplicationState.Work(),
    peakHeapBytes: Long = 0
) {
  import ApplicationState._

  /** The description of the youngest active job. */
  def description: String = if (activeJobs.isEmpty) "" else activeJobs(activeJobs.keys.max)

  def after(event: SparkListenerEvent): ApplicationState = event match {
    case e: SparkListenerApplicationStart =>
      copy(applicationId = e.appId.getOrElse(""), name = e.appName, startedMs = e.time)
    case e: SparkListenerApplicationEnd => copy(endedMs = e.time)
    case e: SparkListenerJobStart => copy(activeJobs = activeJobs.updated(e.jobId, describe(e)))
    case e: SparkListenerJobEnd => copy(activeJobs = activeJobs - e.jobId, jobsDone = jobsDone + 1)
    case e: SparkListenerStageSubmitted =>
      val info = e.stageInfo
      copy(activeStages = activeStages.updated(key(info), Stage(info.stageId, info.name, info.numTasks)))
    case e: SparkListenerStageCompleted =>
      copy(activeStages = activeStages - key(e.stageInfo), stagesDone = stagesDone + 1)
    case e: SparkListenerTaskStart =>
      copy(
        firstTaskLaunchedMs = first(firstTaskLaunchedMs, e.taskInfo.launchTime),
        activeStages = update((e.stageId, e.stageAttemptId))(s => s.copy(running = s.running + 1))
      )
    // The second end of a task that had succeeded: no attempt ran, and none failed.
    case e: SparkListenerTaskEnd if e.reason == Resubmitted =>
      copy(activeStages = update((e.stageId, e.stageAttemptId))(s => s.copy(done = s.done - 1)))
    case e: SparkListenerTaskEnd => ended(e)
    case e: SparkListenerExecutorAdded => copy(executors = executors + e.executorId)
    case e: SparkListenerExecutorRemoved => copy(executors = executors - e.executorId)
    case e: SparkListenerExecutorMetricsUpdate if e.execId != Driver =>
      copy(peakHeapBytes = e.executorUpdates.valuesIterator.foldLeft(peakHeapBytes)((peak, m) => peak.max(heap(m))))
    case _ => this
  }

  private def ended(event: SparkListenerTaskEnd): ApplicationState = {
    val succeeded = event.reason == Success
    val failed = !succeeded && !event.reason.isInstanceOf[TaskKilled]
    copy(
      firstTaskFinishedMs =
        if (succeeded) first(firstTaskFinishedMs, event.taskInfo.finishTime) else firstTaskFinishedMs,
      tasksDone = tasksDone + (if (succeeded) 1 else 0),
      tasksFailed = tasksFailed + (if (failed) 1 else 0),
      // Absent when the executor was lost with the task.
      work = Option(event.taskMetrics).fold(work)(work.add),
      peakHeapBytes = peakHeapBytes.max(heap(event.taskExecutorMetrics)),
      activeStages = update((event.stageId, event.stageAttemptId)) { s =>
        s.copy(
          running = s.running - 1,
          done = s.done + (if (succeeded) 1 else 0),
          failed = s.failed + (if (failed) 1 else 0)
        )
      }
    )
  }

  private def update(key: (Int, Int))(change: Stage => Stage): Map[(Int, Int), Stage] =
    activeStages.updatedWith(key)(_.map(change))
}

private[cluster] object ApplicationState {

  private val Driver = "driver"

  final case class Stage(id: Int, name: String, tasks: Int, done: Int = 0, running: Int = 0, failed: Int = 0)

  /** Sums over all task attempts that reported; `peakExecutionMemoryBytes` is the largest of any one attempt. */
  final case class Work(
      taskMs: Long = 0,
      cpuNs: Long = 0,
      gcMs: Long = 0,
      rowsRead: Long = 0,
      bytesRead: Long = 0,
      rowsWritten: Long = 0,
      bytesWritten: Long = 0,
      shuffleReadBytes: Long = 0,
      shuffleWriteBytes: Long = 0,
      spillMemoryBytes: Long = 0,
      spillDiskBytes: Long = 0,
      peakExecutionMemoryBytes: Long = 0
  ) {
    def add(m: TaskMetrics): Work = Work(
      taskMs + m.executorRunTime,
      cpuNs + m.executorCpuTime,
      gcMs + m.jvmGCTime,
      rowsRead + m.inputMetrics.recordsRead,
      bytesRead + m.inputMetrics.bytesRead,
      rowsWritten + m.outputMetrics.recordsWritten,
      bytesWritten + m.outputMetrics.bytesWritten,
      shuffleReadBytes + m.shuffleReadMetrics.totalBytesRead,
      shuffleWriteBytes + m.shuffleWriteMetrics.bytesWritten,
      spillMemoryBytes + m.memoryBytesSpilled,
      spillDiskBytes + m.diskBytesSpilled,
      peakExecutionMemoryBytes.max(m.peakExecutionMemory)
    )
  }

  private def key(info: StageInfo): (Int, Int) = (info.stageId, info.attemptNumber())

  private def first(known: Long, candidate: Long): Long = if (known == 0) candidate else known.min(candidate)

  private def heap(metrics: ExecutorMetrics): Long =
    if (metrics == null) 0 else metrics.getMetricValue("JVMHeapMemory")

  private def describe(job: SparkListenerJobStart): String =
    Option(job.properties).flatMap(p => Option(p.getProperty("spark.job.description"))).getOrElse("")
}

/** Cumulative counters of one process or several, by name; a missing name is zero. */
private[cluster] object CountsOfAll {

  /** The later of two readings of one process, in whatever order they came. */
  def later(a: Map[String, Long], b: Map[String, Long]): Map[String, Long] = merge(a, b)(_ max _)

  /** The sums over two processes. */
  def sum(a: Map[String, Long], b: Map[String, Long]): Map[String, Long] = merge(a, b)(_ + _)

  private def merge(a: Map[String, Long], b: Map[String, Long])(join: (Long, Long) => Long): Map[String, Long] =
    b.foldLeft(a) { case (all, (name, value)) =>
      all.updatedWith(name)(known => Some(known.fold(value)(join(_, value))))
    }
}

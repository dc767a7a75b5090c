package io.penstock.cluster.observe

import java.util.Properties

import org.apache.spark.penstock.cluster.Events
import org.apache.spark.scheduler._
import org.apache.spark.{ExecutorLostFailure, Resubmitted, Success, TaskEndReason, TaskKilled}
import org.scalatest.funsuite.AnyFunSuite

class ApplicationStateTest extends AnyFunSuite {

  private def after(events: SparkListenerEvent*): ApplicationState = events.foldLeft(ApplicationState())(_.after(_))

  private val lost = ExecutorLostFailure("1", exitCausedByApp = true, None)

  private def task(stage: Int, reason: TaskEndReason, ms: Long = 10): Seq[SparkListenerEvent] =
    Seq(Events.taskStart(stage, launched = 100), Events.taskEnd(stage, reason, launched = 100, finished = 100 + ms))

  test("nothing seen, nothing claimed") {
    assert(ApplicationState() == after())
    assert(ApplicationState().description == "")
  }

  test("the description is the youngest active job's") {
    val first = Events.jobStart(0, "q1 (1 of 2)")
    val second = Events.jobStart(1, "q2 (2 of 2)")
    assert(after(first, second).description == "q2 (2 of 2)")
    assert(after(first, second, Events.jobEnd(1)).description == "q1 (1 of 2)")
    assert(after(first, Events.jobEnd(0)).description == "")
    assert(after(SparkListenerJobStart(2, 0, Nil, new Properties)).description == "")
    assert(after(SparkListenerJobStart(2, 0, Nil, null)).description == "")
  }

  test("a stage is listed while it is active, with its tasks by fate") {
    val events =
      Events.stageSubmitted(7, tasks = 4) +: (task(7, Success) ++ task(7, lost) ++ task(7, TaskKilled("speculation")))
    val seen = after(events :+ Events.taskStart(7, launched = 200): _*)
    assert(
      seen.activeStages.values.toSeq == Seq(
        ApplicationState.Stage(7, "stage 7", tasks = 4, done = 1, running = 1, failed = 1)
      )
    )
    assert((seen.tasksDone, seen.tasksFailed) == ((1L, 1L)))
    val ended = seen.after(Events.stageCompleted(7, tasks = 4))
    assert(ended.activeStages.isEmpty && ended.stagesDone == 1)
  }

  test("a task whose output was lost has not failed, and the stage has it to do again") {
    val submitted = Events.stageSubmitted(7, tasks = 2)
    val again = Events.taskEnd(7, Resubmitted, 100, 110, metrics = None)
    val seen = after((submitted +: task(7, Success)) :+ Events.taskStart(7, 120) :+ again: _*)
    assert(seen.activeStages.values.map(s => (s.done, s.running, s.failed)).toSeq == Seq((0, 1, 0)))
    assert((seen.tasksDone, seen.tasksFailed) == ((1L, 0L)))
    assert(task(7, Success).foldLeft(seen)(_.after(_)).activeStages.values.map(_.done).toSeq == Seq(1))
  }

  test("two attempts of a stage do not share their counts") {
    val seen = after(
      Events.stageSubmitted(1, tasks = 2),
      Events.taskEnd(1, Success, 1, 2),
      Events.stageSubmitted(1, tasks = 1, attempt = 1)
    )
    assert(seen.activeStages.values.map(_.done).toSeq.sorted == Seq(0, 1))
  }

  test("an event of a stage that is gone changes no stage and still counts") {
    val seen = after(task(99, Success): _*)
    assert(seen.activeStages.isEmpty && seen.tasksDone == 1)
  }

  test("a task lost with its executor has no metrics, and the fold goes on") {
    val seen = after(Events.taskEnd(1, lost, 1, 2, metrics = None), Events.taskEnd(1, Success, 1, 2))
    assert((seen.tasksDone, seen.tasksFailed, seen.work.taskMs) == ((1L, 1L, 1L)))
  }

  test("work is summed over all attempts, peak memory is the largest attempt's") {
    val seen = after(
      Events.taskEnd(1, Success, 0, 10, peakMemory = 700),
      Events.taskEnd(1, lost, 0, 5, peakMemory = 900),
      Events.taskEnd(1, Success, 0, 1, peakMemory = 100)
    )
    assert(seen.work.taskMs == 16)
    assert(seen.work.peakExecutionMemoryBytes == 900)
  }

  test("the first task is the earliest launched and the earliest that succeeded") {
    val seen = after(Events.taskStart(1, 300), Events.taskStart(1, 200), Events.taskEnd(1, lost, 200, 250))
    assert((seen.firstTaskLaunchedMs, seen.firstTaskFinishedMs) == ((200L, 0L)))
    assert(seen.after(Events.taskEnd(1, Success, 300, 400)).firstTaskFinishedMs == 400)
  }

  test("executors come and go") {
    assert(
      after(Events.executorAdded("0"), Events.executorAdded("1"), Events.executorRemoved("0")).executors == Set("1")
    )
  }
}

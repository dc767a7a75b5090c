package io.penstock.skipping.fuzz

import java.util.concurrent.{Callable, ExecutionException, FutureTask, TimeUnit, TimeoutException}

import scala.concurrent.duration.FiniteDuration
import scala.jdk.CollectionConverters._

import org.scalatest.Assertions

/** A test that hangs tells less than one that fails. */
object Ending extends Assertions {

  /** What comes of the work; fails with the stack of every thread where it does not end in time. */
  def within[A](limit: FiniteDuration)(work: => A): A = {
    val task = new FutureTask[A]((() => work): Callable[A])
    val thread = new Thread(task, "ending")
    thread.setDaemon(true)
    thread.start()
    try task.get(limit.toMillis, TimeUnit.MILLISECONDS)
    catch {
      case failed: ExecutionException => throw failed.getCause
      case _: TimeoutException =>
        val where = stacks
        task.cancel(true)
        fail(s"it does not end within $limit\n$where")
    }
  }

  private def stacks: String = Thread.getAllStackTraces.asScala
    .map { case (thread, frames) => s"${thread.getName} ${thread.getState}\n" + frames.map("    " + _).mkString("\n") }
    .mkString("\n")
}

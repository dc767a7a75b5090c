package io.penstock.skipping.plan

import java.util.concurrent.atomic.LongAdder
import java.util.concurrent.{Callable, ExecutionException, Executors, TimeUnit, TimeoutException}

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.BaseSubqueryExec

/**
 * Waits for the keys of a join, but not for ever. They only save work: whatever keeps them from coming, above all that
 * every thread of one of Spark's pools waits for something that has yet to get a thread there, costs a scan of all
 * files and no hang. Spark itself waits for a subquery without end.
 */
private[skipping] object Patience extends Logging {

  private val lost = new LongAdder

  /** How often in this process keys did not come in time. */
  def timesLost: Long = lost.sum

  /** In these nothing runs: they stand and wait in Spark's place, which knows no time out. */
  private val waiting = Executors.newCachedThreadPool { task =>
    val thread = new Thread(task, "penstock-skipping-keys")
    thread.setDaemon(true)
    thread
  }

  /** The subquery's rows; None where they did not come within so many seconds. What it throws is thrown. */
  def rows(subquery: BaseSubqueryExec, seconds: Long): Option[Array[InternalRow]] = {
    val coming = waiting.submit((() => subquery.executeCollect()): Callable[Array[InternalRow]])
    try Some(coming.get(seconds, TimeUnit.SECONDS))
    catch {
      case failed: ExecutionException => throw failed.getCause
      case _: TimeoutException =>
        lost.increment()
        logWarning(s"The keys of ${subquery.name} did not come within $seconds s: a scan goes on without them")
        None
    } finally coming.cancel(true): Unit
  }
}

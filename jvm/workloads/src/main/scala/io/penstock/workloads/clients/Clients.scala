package io.penstock.workloads.clients

import java.util.concurrent.{Callable, CountDownLatch, Executors}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.{BarrierTaskContext, SparkContext, SparkEnv, TaskContext}

/**
 * One of several clients at work at the same time.
 *
 * @param number
 *   from 0
 * @param executors
 *   of each client, by its number: which executor it is in; empty where clients do not wait for each other
 * @param attempt
 *   above 0 where an executor was lost and its clients began again in another one
 * @param startedNanos
 *   of `System.nanoTime`, when it was let go
 */
case class Client(number: Int, executors: IndexedSeq[String], attempt: Int, startedNanos: Long)

/** Clients that could not do their work; the message says which and why. */
class ClientsFailed(message: String) extends Exception(message)

/**
 * Runs any number of clients at once on a cluster: a task in each executor, in it a thread for each of its clients. A
 * thread, because a client that waits for the store needs no core, and tasks beyond the cores would wait their turn
 * instead of being clients.
 */
class Clients(spark: SparkContext) {

  /** Without the driver, which the tracker counts too; a local master has nothing but the driver. */
  val executors: Int = math.max(1, spark.statusTracker.getExecutorInfos.length - 1)

  /**
   * All are let go at the same moment, once every one of them is there, and a lost executor begins the whole of it
   * again. Raises `ClientsFailed` when all are done and any of them threw.
   */
  def together[R](count: Int, doing: String)(work: Client => R): Seq[R] = {
    val tasks = math.min(count, executors)
    spark.setJobDescription(doing)
    val results = spark
      .parallelize(0 until tasks, tasks)
      .barrier()
      .mapPartitions { numbers =>
        val task = BarrierTaskContext.get()
        val mine = numbers.flatMap(_ until count by tasks).toSeq
        Clients.inThreads(mine, work) { () =>
          val places = task.allGather(SparkEnv.get.executorId)
          Client(_, Vector.tabulate(count)(number => places(number % tasks)), task.stageAttemptNumber(), _)
        }
      }
      .collect()
    Clients.succeeded(doing, results.toSeq)
  }

  /** Each begins as soon as its executor can, and those of a lost executor begin again alone. As `together` fails. */
  def apart[R](count: Int, doing: String)(work: Client => R): Seq[R] = {
    val tasks = math.min(count, executors)
    spark.setJobDescription(doing)
    val results = spark
      .parallelize(0 until tasks, tasks)
      .mapPartitions { numbers =>
        val attempt = TaskContext.get().attemptNumber()
        Clients.inThreads(numbers.flatMap(_ until count by tasks).toSeq, work)(() =>
          Client(_, Vector.empty, attempt, _)
        )
      }
      .collect()
    Clients.succeeded(doing, results.toSeq)
  }
}

private object Clients {

  /** `ready` is called once the threads wait to be let go, and returns how a client is made. */
  private def inThreads[R](numbers: Seq[Int], work: Client => R)(
      ready: () => (Int, Long) => Client
  ): Iterator[(Int, Either[String, R])] = {
    val pool = Executors.newFixedThreadPool(numbers.size)
    val go = new CountDownLatch(1)
    @volatile var client: Int => Client = null
    try {
      val waiting = numbers.map { number =>
        pool.submit(new Callable[(Int, Either[String, R])] {
          override def call(): (Int, Either[String, R]) = {
            go.await()
            (number, attempted(work(client(number))))
          }
        })
      }
      val made = ready()
      val started = System.nanoTime()
      client = made(_, started)
      go.countDown()
      waiting.map(_.get()).iterator
    } finally {
      // A task that is killed must not leave clients behind that go on writing.
      val _ = pool.shutdownNow().asScala
    }
  }

  private def attempted[R](work: => R): Either[String, R] =
    try Right(work)
    catch { case NonFatal(error) => Left(error.toString) }

  private def succeeded[R](doing: String, results: Seq[(Int, Either[String, R])]): Seq[R] = {
    val failures = results.collect { case (number, Left(error)) => s"client $number: $error" }
    if (failures.nonEmpty)
      throw new ClientsFailed(s"$doing: ${failures.size} of ${results.size} clients failed; ${failures.head}")
    results.sortBy(_._1).collect { case (_, Right(result)) => result }
  }
}

package io.penstock.workloads.clients

import java.util.concurrent.{Callable, CountDownLatch, Executors}

import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FSDataOutputStream, Path}
import org.apache.spark.{BarrierTaskContext, SparkContext, SparkEnv, TaskContext}

import io.penstock.application.UsageError

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

/** A directory that a load fills and takes away again, and that must therefore be its own. */
object Place {

  /** Refuses a place with something in it: it would be measured, called wrong, and deleted. */
  def requireEmpty(location: String, configuration: Configuration): Unit = {
    val path = new Path(location)
    val fileSystem = path.getFileSystem(configuration)
    if (fileSystem.exists(path) && fileSystem.listStatusIterator(path).hasNext)
      throw new UsageError(s"$location is not empty: give --location a place of its own, which will be deleted.")
  }

  def remove(location: String, configuration: Configuration): Unit = {
    val path = new Path(location)
    val _ = path.getFileSystem(configuration).delete(path, true)
  }

  /** Replaces the file, and makes its directories; the stream is the request that stores it and nothing else. */
  def create(path: Path, configuration: Configuration): FSDataOutputStream =
    path
      .getFileSystem(configuration)
      .createFile(path)
      .overwrite(true)
      .recursive()
      // Otherwise S3A first asks the store whether a directory of that name is in the way.
      .opt("fs.s3a.create.performance", true)
      .build()
}

/** The work of one step of time. */
case class Step(bytes: Long, operations: Long) {
  def +(other: Step): Step = Step(bytes + other.bytes, operations + other.operations)
}

/**
 * The work over time, in steps of `stepSeconds` since a start that all clients share. Thread-safe.
 *
 * The bytes of an operation are spread evenly over its time: the moments at which a stream took them show only the size
 * of the buffers in between, and counting all at the end would give a rate that no second had.
 */
class RateOverTime(stepSeconds: Int) {

  private val stepNanos = stepSeconds * 1000000000L
  private val found = ArrayBuffer.empty[Step]

  /** Nanoseconds since the start. The operation counts where it ended; no byte is lost to rounding. */
  def add(fromNanos: Long, toNanos: Long, bytes: Long, operations: Long): Unit = synchronized {
    val (first, last) = ((fromNanos / stepNanos).toInt, (toNanos / stepNanos).toInt)
    while (found.size <= last) found += Step(0, 0)
    def until(step: Int): Long = {
      val part = ((step + 1) * stepNanos - fromNanos).toDouble / (toNanos - fromNanos)
      if (step == last) bytes else (bytes * part).toLong
    }
    var before = 0L
    for (step <- first to last) {
      val upTo = until(step)
      found(step) += Step(upTo - before, if (step == last) operations else 0)
      before = upTo
    }
  }

  def steps: Vector[Step] = synchronized(found.toVector)
}

object RateOverTime {

  /** All together, step by step; those that ended earlier did nothing after. */
  def merged(all: Seq[Vector[Step]]): Vector[Step] = {
    val nothing = Step(0, 0)
    all.foldLeft(Vector.empty[Step])(_.zipAll(_, nothing, nothing).map { case (one, other) => one + other })
  }
}

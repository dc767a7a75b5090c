package io.penstock.cluster

import scala.util.control.NonFatal

import org.codehaus.janino.ClassBodyEvaluator
import org.slf4j.LoggerFactory

/**
 * Does in the background what the first task would wait for: the first use of a class is the slow one. Each step is
 * independent and may fail: it will then fail, or not, where it is needed.
 *
 * Only what costs the first task its time is here. Preparing what an executor needs to register was tried and taken
 * out: it registers a second before the driver has a task for it, and on two cores it took that second from the driver.
 */
private[cluster] object Preload {

  private val log = LoggerFactory.getLogger("io.penstock.cluster.Preload")

  private val steps: Seq[(String, () => Unit)] = Seq(
    "the compiler of generated code" -> { () =>
      val body = "public Object generate(Object[] references) { return Integer.valueOf(references.length); }"
      new ClassBodyEvaluator().cook("generated.java", body)
    },
    "the classes of the first task" -> (() => Classes.foreach(Class.forName))
  )

  private val Classes: Seq[String] = Seq(
    "org.apache.spark.executor.Executor",
    "org.apache.spark.broadcast.TorrentBroadcast",
    "org.apache.spark.storage.BlockManager",
    "org.apache.spark.shuffle.sort.SortShuffleManager",
    "org.apache.spark.scheduler.ShuffleMapTask",
    "org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator$",
    "org.apache.spark.sql.execution.WholeStageCodegenEvaluatorFactory",
    "org.apache.spark.sql.execution.datasources.parquet.VectorizedParquetRecordReader"
  )

  /** Returns at once. */
  def start(): Unit = {
    val thread = new Thread(() => steps.foreach((attempt _).tupled), "penstock-preload")
    thread.setDaemon(true)
    thread.start()
  }

  private def attempt(name: String, step: () => Unit): Unit =
    try step()
    catch { case problem @ (NonFatal(_) | _: LinkageError) => log.info(s"Could not prepare $name", problem) }
}

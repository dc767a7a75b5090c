package io.penstock.cluster

import java.nio.file.{Path, Paths}

import scala.annotation.tailrec
import scala.util.control.NonFatal

import org.apache.spark.penstock.cluster.ExecutorProcess
import org.codehaus.janino.ClassBodyEvaluator
import org.slf4j.LoggerFactory

import io.penstock.cluster.protocol.Endpoint

/**
 * An executor that boots while its driver does.
 *
 * Started at the same moment as the driver, it prepares what every executor needs, waits for the driver's endpoint, and
 * then becomes Spark's own executor. It ends by itself when its parent process dies or no driver appears in time, so a
 * driver that fails to start leaves no executor behind.
 *
 * `--directory D --executor-id N --cores C --properties-file F [--host 127.0.0.1] [--wait-seconds 300]`
 */
object ExecutorLauncher {

  private val PollMillis = 5L

  /** The exit code where no driver appeared, or the parent ended: not a failure of the executor, nothing to retry. */
  val NoDriver = 3

  def main(arguments: Array[String]): Unit = {
    val options = Options.parse(arguments.toList)
    ExecutorProcess.adopt(options.properties)
    Preload.start()
    awaitEndpoint(options) match {
      case Some(endpoint) => ExecutorProcess.run(endpoint, options.executorId, options.cores, options.host)
      case None =>
        System.err.println(s"executor ${options.executorId}: no driver in ${options.directory}, giving up")
        System.exit(NoDriver)
    }
  }

  private def awaitEndpoint(options: Options): Option[Endpoint] = {
    val parent = ProcessHandle.current.parent
    val deadline = System.nanoTime + options.waitSeconds * 1000000000L

    @tailrec def poll(): Option[Endpoint] =
      Endpoint.read(options.directory) match {
        case found @ Some(_) => found
        case None if System.nanoTime >= deadline || !parent.map[Boolean](_.isAlive).orElse(false) => None
        case None =>
          Thread.sleep(PollMillis)
          poll()
      }
    poll()
  }

  final private[cluster] case class Options(
      directory: Path,
      properties: Path,
      executorId: String,
      cores: Int,
      host: String,
      waitSeconds: Long
  )

  private[cluster] object Options {

    def parse(arguments: List[String]): Options = {
      val values = arguments
        .grouped(2)
        .map {
          case name :: value :: Nil if name.startsWith("--") => name.drop(2) -> value
          case other => throw new IllegalArgumentException(s"expected --name value, got ${other.mkString(" ")}")
        }
        .toMap
      def required(name: String): String =
        values.getOrElse(name, throw new IllegalArgumentException(s"--$name is missing"))
      Options(
        directory = Paths.get(required("directory")),
        properties = Paths.get(required("properties-file")),
        executorId = required("executor-id"),
        cores = required("cores").toInt,
        host = values.getOrElse("host", "127.0.0.1"),
        waitSeconds = values.get("wait-seconds").fold(300L)(_.toLong)
      )
    }
  }
}

/**
 * Loads in the background the classes that the first task would wait for. Each step is independent, and its failure is
 * only logged: the task then fails, or not, where it needs the class.
 *
 * Only steps that cost the first task time are here. Preparing the registration of an executor was tried and removed:
 * it registers a second before the driver has a task for it, and on two cores that second came from the driver.
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

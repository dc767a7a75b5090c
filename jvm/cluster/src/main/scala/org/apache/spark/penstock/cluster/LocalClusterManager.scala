package org.apache.spark.penstock.cluster

import java.io.IOException
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path, Paths}
import java.util.Properties

import scala.concurrent.Future
import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.spark.executor.CoarseGrainedExecutorBackend
import org.apache.spark.executor.CoarseGrainedExecutorBackend.Arguments
import org.apache.spark.internal.config
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.rpc.{RpcEndpointAddress, RpcEnv}
import org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend
import org.apache.spark.scheduler.{ExternalClusterManager, SchedulerBackend, TaskScheduler, TaskSchedulerImpl}
import org.apache.spark.storage.TopologyMapper
import org.apache.spark.{SparkConf, SparkContext, SparkEnv, SparkException}

import io.penstock.cluster.protocol.Endpoint
import io.penstock.fs.locality.NodeName

/**
 * The cluster manager behind `spark.master=local-penstock`: a driver whose executors its supervisor starts.
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

  /** The address at which executors register with the driver that has these settings. */
  def driverUrl(conf: SparkConf): String = RpcEndpointAddress(
    conf.get(config.DRIVER_HOST_ADDRESS),
    conf.get(config.DRIVER_PORT),
    CoarseGrainedSchedulerBackend.ENDPOINT_NAME
  ).toString
}

/**
 * Publishes the driver's endpoint and waits for executors. The process supervisor that started the driver starts,
 * replaces and ends their processes.
 *
 * The endpoint is in place from the moment the driver listens until its context stops, so an executor that starts at
 * any time (the first ones boot beside the driver; replacements come later) either finds a driver to join or waits.
 *
 * Settings: `spark.penstock.directory`, the directory of the endpoint's file; `spark.penstock.executors`, the number of
 * executors of `spark.executor.cores` that the cluster has.
 */
private[spark] class LocalSchedulerBackend(scheduler: TaskSchedulerImpl, context: SparkContext)
    extends CoarseGrainedSchedulerBackend(scheduler, context.env.rpcEnv) {

  private val directory: Path = Paths.get(required("spark.penstock.directory"))
  private val executors: Int = required("spark.penstock.executors").toInt
  private val slots: Int = executors * conf.get(config.EXECUTOR_CORES)
  private val generatedId = s"penstock-${System.currentTimeMillis}-${ProcessHandle.current.pid}"

  override def applicationId(): String = conf.getOption("spark.app.id").getOrElse(generatedId)

  private var webInterface: Option[WebInterface] = None

  override def start(): Unit = {
    super.start()
    publish(context.uiWebUrl.getOrElse(""))
    if (context.ui.isEmpty) webInterface = Some(new WebInterface(context, applicationId(), directory, publish))
  }

  override def stop(): Unit = {
    webInterface.foreach(_.close())
    Endpoint.withdraw(directory)
    super.stop()
  }

  /** The size asked for, not the executors registered so far: a plan must not depend on who booted faster. */
  override def defaultParallelism(): Int = conf.getInt(config.DEFAULT_PARALLELISM.key, math.max(slots, 2))

  override def sufficientResourcesRegistered(): Boolean =
    totalRegisteredExecutors.get() >= executors * minRegisteredRatio

  /** The cluster has one size for its whole life; dynamic allocation may ask, and gets what is there. */
  override protected def doRequestTotalExecutors(requested: Map[ResourceProfile, Int]): Future[Boolean] =
    Future.successful(requested.values.sum <= executors)

  private def publish(uiUrl: String): Unit =
    Endpoint(LocalClusterManager.driverUrl(conf), applicationId(), uiUrl).publish(directory)

  private def required(key: String): String =
    conf.getOption(key).getOrElse(throw new SparkException(s"master ${LocalClusterManager.Master} needs $key"))
}

/** Starts Spark's executor, which is `private[spark]`. */
object ExecutorProcess {

  /**
   * Take over the network's settings and the secret from the driver's properties file: an executor needs them before it
   * can ask the driver for the rest. They become system properties of this process, which Spark reads and no process
   * list shows.
   */
  def adopt(properties: Path): Unit = {
    val read = new Properties
    Using.resource(Files.newBufferedReader(properties, UTF_8))(read.load(_))
    for ((key, value) <- read.asScala if SparkConf.isExecutorStartupConf(key) || key.startsWith("spark.authenticate"))
      sys.props(key) = value.trim
  }

  /** Run an executor of the driver at `endpoint` until that driver ends it; does not return before. */
  def run(endpoint: Endpoint, executorId: String, cores: Int, host: String): Unit =
    CoarseGrainedExecutorBackend.main(
      Array(
        "--driver-url",
        endpoint.driverUrl,
        "--executor-id",
        executorId,
        "--bind-address",
        host,
        "--hostname",
        host,
        "--cores",
        cores.toString,
        "--app-id",
        endpoint.applicationId,
        "--resourceProfileId",
        "0"
      )
    )
}

/**
 * An executor in a pod that the scheduler knows by the name of its node: `--node NAME`, then the arguments of Spark's
 * own executor. Others fetch its blocks from its pod's address (`--hostname`), but the scheduler sends tasks to the
 * nodes that hold their pages, which outlive pods and which all executors of a node share.
 */
object NodeExecutor {

  def main(arguments: Array[String]): Unit = arguments match {
    case Array("--node", node, rest @ _*) =>
      val parsed = CoarseGrainedExecutorBackend.parseArguments(rest.toArray, getClass.getName.stripSuffix("$"))
      CoarseGrainedExecutorBackend.run(parsed, on(node))
      System.exit(0)
    case _ => throw new IllegalArgumentException("--node NAME comes first")
  }

  private def on(node: String)(
      rpc: RpcEnv,
      parsed: Arguments,
      env: SparkEnv,
      profile: ResourceProfile
  ): CoarseGrainedExecutorBackend =
    new CoarseGrainedExecutorBackend(
      rpc,
      parsed.driverUrl,
      parsed.executorId,
      parsed.bindAddress,
      node,
      parsed.cores,
      env,
      parsed.resourcesFileOpt,
      profile
    )
}

/**
 * Maps an executor's address to its node: `spark.storage.replication.topologyMapper`.
 *
 * The supervisor writes the node's name into the file `nodes/<address>` of `spark.penstock.directory` before the
 * executor comes up. An address without such a file has no topology.
 */
class NodeTopology(conf: SparkConf) extends TopologyMapper(conf) {

  private val nodes: Path = Paths.get(conf.get("spark.penstock.directory")).resolve("nodes")

  override def getTopologyForHost(host: String): Option[String] = {
    val address = host.stripPrefix("[").stripSuffix("]")
    try
      Option
        .when(NodeTopology.Address.matches(address))(Files.readAllBytes(nodes.resolve(address)))
        .map(name => NodeName.asTopology(new String(name, UTF_8)))
    catch { case _: IOException => None }
  }
}

private object NodeTopology {
  private val Address = "[0-9a-fA-F.:]+".r
}

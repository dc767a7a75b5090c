package org.apache.spark.penstock

import java.nio.file.{Path, Paths}

import scala.concurrent.Future

import org.apache.spark.internal.config
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.rpc.RpcEndpointAddress
import org.apache.spark.scheduler.TaskSchedulerImpl
import org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend
import org.apache.spark.{SparkContext, SparkException}

import io.penstock.cluster.Endpoint

/**
 * Publishes where executors find this driver, and waits for them: starting, replacing and ending their processes is the
 * business of whoever started the driver.
 *
 * The endpoint is in place from the moment the driver listens until its context stops, so an executor that starts at
 * any time (the first ones boot beside the driver; replacements come later) either finds a driver to join or waits.
 *
 * Settings: `spark.penstock.directory`, where the endpoint is published; `spark.penstock.executors`, how many executors
 * of `spark.executor.cores` the cluster has.
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

  private def publish(uiUrl: String): Unit = {
    val driver =
      RpcEndpointAddress(conf.get(config.DRIVER_HOST_ADDRESS), conf.get(config.DRIVER_PORT), DriverEndpointName)
    Endpoint(driver.toString, applicationId(), uiUrl).publish(directory)
  }

  private def DriverEndpointName: String = CoarseGrainedSchedulerBackend.ENDPOINT_NAME

  private def required(key: String): String =
    conf.getOption(key).getOrElse(throw new SparkException(s"master ${LocalClusterManager.Master} needs $key"))
}

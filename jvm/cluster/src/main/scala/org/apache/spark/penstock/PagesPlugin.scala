package org.apache.spark.penstock

import java.nio.file.{Path, Paths}
import java.util.{Collections, Map => JavaMap}

import org.apache.spark.SparkContext
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, PluginContext, SparkPlugin}
import org.apache.spark.internal.config
import org.apache.spark.rpc.RpcEndpointAddress
import org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend

import io.penstock.cluster.Endpoint

/**
 * Spark's pages of a driver whose executors another scheduler than Penstock's own starts: opened when somebody wants to
 * look, and told of in `spark.penstock.directory`, as `LocalSchedulerBackend` does.
 */
class PagesPlugin extends SparkPlugin {
  override def driverPlugin(): DriverPlugin = new PagesPlugin.Driver
  override def executorPlugin(): ExecutorPlugin = null
}

private object PagesPlugin {

  final class Driver extends DriverPlugin {

    private var context: SparkContext = _
    private var directory: Path = _
    private var pages: Option[WebInterface] = None

    override def init(context: SparkContext, plugin: PluginContext): JavaMap[String, String] = {
      this.context = context
      directory = Paths.get(context.conf.get("spark.penstock.directory"))
      Collections.emptyMap
    }

    /** Called when the context is complete but for its listeners, and the application's id is known. */
    override def registerMetrics(applicationId: String, plugin: PluginContext): Unit = {
      def publish(url: String): Unit = Endpoint(driverUrl, applicationId, url).publish(directory)
      publish(context.uiWebUrl.getOrElse(""))
      if (context.ui.isEmpty) pages = Some(new WebInterface(context, applicationId, directory, publish))
    }

    override def shutdown(): Unit = {
      pages.foreach(_.close())
      Endpoint.withdraw(directory)
    }

    private def driverUrl: String = RpcEndpointAddress(
      context.conf.get(config.DRIVER_HOST_ADDRESS),
      context.conf.get(config.DRIVER_PORT),
      CoarseGrainedSchedulerBackend.ENDPOINT_NAME
    ).toString
  }
}

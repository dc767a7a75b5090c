package io.penstock.fs

import java.util.{Collections, Map => JavaMap}

import com.codahale.metrics.{Gauge, MetricRegistry}
import org.apache.spark.SparkContext
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, PluginContext, SparkPlugin}

/**
 * Puts every count of [[Counters]] among Spark's own metrics, so that each of its sinks shows them:
 * `spark.plugins=io.penstock.fs.LakeMetrics`.
 *
 * They are called `plugin.io.penstock.fs.LakeMetrics.<name>`, of the driver and of each executor.
 */
class LakeMetrics extends SparkPlugin {

  override def driverPlugin(): DriverPlugin = new DriverPlugin {
    override def init(context: SparkContext, plugin: PluginContext): JavaMap[String, String] = {
      LakeMetrics.register(plugin.metricRegistry)
      Collections.emptyMap
    }
  }

  override def executorPlugin(): ExecutorPlugin = new ExecutorPlugin {
    override def init(plugin: PluginContext, settings: JavaMap[String, String]): Unit =
      LakeMetrics.register(plugin.metricRegistry)
  }
}

private[fs] object LakeMetrics {

  def register(registry: MetricRegistry): Unit =
    for (counter <- Counters.All) {
      val gauge: Gauge[Long] = () => counter.value
      registry.register(counter.name, gauge)
    }
}

package io.penstock.workloads.reads

import java.io.FileInputStream
import java.util.Properties

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.conf.Configuration

import io.penstock.workloads.Arguments

/** Hadoop's configuration as an application with these settings gives it to its tasks, without any Spark. */
object HadoopSettings {

  val Usage = "[--settings FILE of Spark's settings]"

  private val Prefix = "spark.hadoop."

  def of(options: Arguments): Configuration = {
    val configuration = new Configuration
    for (file <- options.optional("settings")) {
      val properties = new Properties
      Using.resource(new FileInputStream(file))(properties.load)
      for ((key, value) <- properties.asScala if key.startsWith(Prefix))
        configuration.set(key.stripPrefix(Prefix), value)
    }
    configuration
  }
}

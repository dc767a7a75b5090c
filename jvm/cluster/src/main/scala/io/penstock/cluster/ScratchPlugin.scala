package io.penstock.cluster

import java.io.{File, StringWriter}
import java.nio.file.Paths
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicReference
import java.util.{Collections, Map => JavaMap}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.core.JsonFactory
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, PluginContext, SparkPlugin}
import org.apache.spark.penstock.cluster.ScratchBlockManager
import org.apache.spark.{ExceptionFailure, SparkContext, TaskFailedReason}
import org.slf4j.LoggerFactory

import io.penstock.cluster.protocol.AtomicFile
import io.penstock.cluster.scratch.{MemoryDirectory, MemoryFailure, Scratch}

/**
 * Keeps shuffle and spill files in memory up to a budget: `spark.plugins=io.penstock.cluster.ScratchPlugin`.
 *
 * Settings:
 *   - `spark.penstock.scratch.memory`: the budget of all executors together (a size)
 *   - `spark.penstock.scratch.directory`: a directory in memory for this application alone
 *   - `spark.penstock.executors`: the number of executors that share the budget
 *   - `spark.penstock.directory`: gets `scratch.json` at the end, the bytes in memory and on disk with the reason
 *
 * Executors have equal parts: a stage's tasks are spread evenly over equal executors, so the parts fill evenly, and
 * processes that may be killed at any moment need no agreement.
 */
class ScratchPlugin extends SparkPlugin {
  override def driverPlugin(): DriverPlugin = new ScratchPlugin.Driver
  override def executorPlugin(): ExecutorPlugin = new ScratchPlugin.Executor
}

private object ScratchPlugin {

  private val log = LoggerFactory.getLogger(classOf[ScratchPlugin])

  /** Cumulative, so that a lost or repeated message does no harm. */
  final case class ExecutorScratch(executorId: String, reading: Scratch.Reading)

  final class Driver extends DriverPlugin {

    private val readings = new ConcurrentHashMap[String, Scratch.Reading]
    private var context: SparkContext = _

    override def init(context: SparkContext, plugin: PluginContext): JavaMap[String, String] = {
      this.context = context
      Collections.emptyMap
    }

    override def receive(message: AnyRef): AnyRef = {
      message match {
        case ExecutorScratch(executor, reading) => readings.put(executor, reading)
        case _ =>
      }
      null
    }

    override def shutdown(): Unit = {
      val file = Paths.get(context.getConf.get("spark.penstock.directory")).resolve("scratch.json")
      val total = readings.asScala.toSeq.sortBy(_._1).map(_._2).foldLeft(Scratch.Reading.Zero)(_ + _)
      try AtomicFile.replace(file, json(total, context.getConf.getSizeAsBytes("spark.penstock.scratch.memory")))
      catch { case NonFatal(problem) => log.warn("The use of scratch is not reported", problem) }
    }

    private def json(total: Scratch.Reading, budget: Long): String = {
      val text = new StringWriter
      val out = new JsonFactory().createGenerator(text)
      out.writeStartObject()
      out.writeNumberField("budget_bytes", budget)
      out.writeNumberField("memory_bytes", total.memoryBytes)
      out.writeNumberField("disk_bytes", total.diskBytes)
      out.writeStringField("fell_over", total.fellOver)
      out.writeEndObject()
      out.close()
      text.toString
    }
  }

  final class Executor extends ExecutorPlugin {

    private var context: PluginContext = _
    private var scratch: Scratch = _
    private var memory: MemoryDirectory = _
    private val sent = new AtomicReference(Scratch.Reading.Zero)

    override def init(context: PluginContext, extraConf: JavaMap[String, String]): Unit = {
      this.context = context
      val conf = context.conf
      val share = conf.getSizeAsBytes("spark.penstock.scratch.memory") / conf.getInt("spark.penstock.executors", 1)
      memory = new MemoryDirectory(new File(conf.get("spark.penstock.scratch.directory"), context.executorID))
      val closed = Paths.get(conf.get("spark.penstock.directory")).resolve("scratch-memory-closed")
      scratch = ScratchBlockManager.install(new Scratch(memory, share, _, closed), memory.root)
    }

    override def onTaskSucceeded(): Unit = report()

    /**
     * Called before the driver hears of the failure, so that the next attempt finds memory closed on every executor.
     */
    override def onTaskFailed(reason: TaskFailedReason): Unit = {
      reason match {
        case failure: ExceptionFailure =>
          MemoryFailure.of(failure.fullStackTrace, memory.root.getPath).foreach(scratch.close)
        case _ =>
      }
      report()
    }

    /** Before the task's own end is reported, so that totals are complete when the last task is. */
    private def report(): Unit =
      try {
        val reading = scratch.reading()
        if (sent.getAndSet(reading) != reading) context.send(ExecutorScratch(context.executorID, reading))
      } catch { case NonFatal(problem) => log.debug("The use of scratch was not sent", problem) }
  }
}

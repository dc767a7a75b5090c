package io.penstock.workloads.reads

import java.lang.management.ManagementFactory
import java.nio.charset.StandardCharsets.US_ASCII
import java.nio.file.{Files, NoSuchFileException, Path, Paths}

import scala.jdk.CollectionConverters._
import scala.util.Using

import com.sun.management.OperatingSystemMXBean

/**
 * What this process has used of the processors, all its threads together, those of the JVM included.
 *
 * Java's own figure has ticks of 10 ms, in which tens of megabytes are read; the kernel's scheduler counts each thread
 * in nanoseconds (`/proc/self/task/N/schedstat`, the first number). A thread that ends while it is measured takes its
 * count with it. Where the kernel keeps no such counts, it is Java's.
 */
sealed trait ProcessorTime {

  /** Seconds from then until now. */
  def used(): Double
}

object ProcessorTime {

  private val Threads = Paths.get("/proc/self/task")

  def start(): ProcessorTime =
    if (Files.isReadable(Paths.get("/proc/self/schedstat"))) new ByThread(counts()) else new ByTicks(ticks())

  private final class ByThread(before: Map[String, Long]) extends ProcessorTime {
    override def used(): Double =
      counts().map { case (thread, now) => now - before.getOrElse(thread, 0L) }.sum / 1e9
  }

  private final class ByTicks(before: Long) extends ProcessorTime {
    override def used(): Double = (ticks() - before) / 1e9
  }

  private def counts(): Map[String, Long] =
    Using.resource(Files.newDirectoryStream(Threads))(_.asScala.flatMap(count).toMap)

  private def count(thread: Path): Option[(String, Long)] =
    try {
      val text = new String(Files.readAllBytes(thread.resolve("schedstat")), US_ASCII)
      Some(thread.getFileName.toString -> text.takeWhile(_ != ' ').toLong)
    } catch { case _: NoSuchFileException => None } // it has ended

  private def ticks(): Long =
    ManagementFactory.getPlatformMXBean(classOf[OperatingSystemMXBean]).getProcessCpuTime
}

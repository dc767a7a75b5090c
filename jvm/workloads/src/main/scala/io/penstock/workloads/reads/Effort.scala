package io.penstock.workloads.reads

import java.lang.management.{ManagementFactory, MemoryType}

import scala.jdk.CollectionConverters._

import io.penstock.fs.Counters

/**
 * What a piece of work took of this process.
 *
 * @param coreSeconds
 *   of all its threads, the compiler's and the collector's included
 * @param requests
 *   sent to the store, by kind; only what there was
 * @param counters
 *   what the file system counted meanwhile; only what there was
 * @param peakHeapBytes
 *   the sum of the heap pools' highest fillings, garbage included
 */
final case class Effort(
    elapsedMs: Double,
    coreSeconds: Double,
    requests: Map[String, Long],
    counters: Map[String, Long],
    peakHeapBytes: Long
)

object Effort {

  def of[T](work: => T): (T, Effort) = {
    // What others left behind is not this work's to clear away.
    System.gc()
    heapPools.foreach(_.resetPeakUsage())
    val before = Counters.now()
    val processors = ProcessorTime.start()
    val started = System.nanoTime()
    val result = work
    val elapsed = System.nanoTime() - started
    val used = processors.used()
    val counted = Counters.now().collect { case (name, now) if now > before(name) => name -> (now - before(name)) }
    val sent = Counters.RequestsByKind.flatMap(requests => counted.get(requests.sent.name).map(requests.kind -> _))
    val peak = heapPools.map(_.getPeakUsage.getUsed).sum
    (result, Effort(elapsed / 1e6, used, sent.toMap, counted, peak))
  }

  private def heapPools = ManagementFactory.getMemoryPoolMXBeans.asScala.filter(_.getType == MemoryType.HEAP)
}

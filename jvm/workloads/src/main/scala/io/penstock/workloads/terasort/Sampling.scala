package io.penstock.workloads.terasort

import java.util.concurrent.{Callable, Executors}

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.conf.Configuration

/** Which records are looked at to find out how keys are distributed. */
object Sampling {

  /** With so many, the largest of a hundred partitions is about a tenth larger than the mean. */
  private val PerRange = 1000
  private val AtLeast = 50000

  /** Each is one request to the store. Keys may follow from their records' places in the data, so it takes several. */
  private val Places = 64
  private val AtOnce = 16

  /** How many records tell the bounds of so many ranges. */
  def size(ranges: Int): Long = math.max(AtLeast.toLong, ranges.toLong * PerRange)

  /** `records` records at places evenly spread over all of the data; all of it where it is not more than that. */
  def plan(data: Seq[Split], records: Long): Seq[Split] = {
    val total = data.map(_.records).sum
    if (total <= records) data
    else {
      val each = math.max(1, records / Places)
      val starts = data.scanLeft(0L)(_ + _.records)
      for {
        place <- 0L until Places.toLong
        // The middle of each of as many equal parts.
        at = (BigInt(total) * (2 * place + 1) / (2 * Places)).toLong
        index = starts.lastIndexWhere(_ <= at)
        split = data(index)
        // What begins close to its split's end is moved back.
        within = math.max(0, math.min(at - starts(index), split.records - each))
      } yield split.copy(first = split.first + within, records = math.min(each, split.records - within))
    }
  }

  /** The records of the plan. */
  def read(plan: Seq[Split], configuration: Configuration): RecordBuffer = {
    val pool = Executors.newFixedThreadPool(AtOnce)
    try {
      val parts = plan.map { split =>
        (() => Using.resource(split.open(configuration))(in => in.readNBytes(split.bytes.toInt))): Callable[Array[Byte]]
      }
      val sample = new RecordBuffer
      pool.invokeAll(parts.asJava).asScala.foreach(part => sample.sink.write(part.get()))
      sample
    } finally pool.shutdownNow()
  }
}

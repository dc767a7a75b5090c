package io.penstock.fs.locality

import java.nio.charset.StandardCharsets.UTF_8
import java.util.Arrays
import java.util.concurrent.atomic.AtomicReference

import scala.util.control.NonFatal

import org.apache.commons.codec.digest.MurmurHash3
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.BlockLocation
import org.slf4j.LoggerFactory

/** Which hosts are to read which stretch of a file, so that a page is kept where it is asked for again. */
object Ranges {

  /**
   * Spark's own largest split of a file (`spark.sql.files.maxPartitionBytes`): Spark cuts small inputs into smaller
   * splits, so that with a smaller range the host of one byte would change with the size of the query.
   */
  val Bytes: Long = 128L << 20

  /** The second one takes over what the first has no free core for, and keeps its pages if the first goes away. */
  val PreferredHosts: Int = 2

  /**
   * The ranges that overlap the bytes from `start` on, at most `length` of them, each with its hosts.
   *
   * @param file
   *   what the ranges are named by, the same in every process
   * @param fileLength
   *   in bytes; nothing is located beyond it
   */
  def locate(ring: HashRing, file: String, fileLength: Long, start: Long, length: Long): Array[BlockLocation] = {
    val end = if (length > fileLength - start) fileLength else start + length
    if (start >= end) Array.empty
    else
      (start / Bytes to (end - 1) / Bytes).map { range =>
        val hosts = ring.preferred(s"$file#$range", PreferredHosts).toArray
        val first = range * Bytes
        new BlockLocation(hosts, hosts, first, Bytes.min(fileLength - first))
      }.toArray
  }
}

/**
 * Consistent hashing (Karger et al., STOC 1997): which hosts a name prefers. A host that comes takes only its own share
 * of the names from the others, and one that goes leaves only its own to them; every process that knows the same hosts
 * gives the same answers.
 */
final class HashRing(hosts: Iterable[String]) {

  private val points: Array[(Long, String)] =
    hosts.toVector.distinct
      .flatMap(host => (0 until HashRing.PointsPerHost).map(i => HashRing.position(s"$host#$i") -> host))
      .sorted
      .toArray

  private val positions: Array[Long] = points.map(_._1)

  val size: Int = points.length / HashRing.PointsPerHost

  /**
   * The first `count` different hosts clockwise from the name, the most preferred first; fewer where there are fewer.
   */
  def preferred(name: String, count: Int): Vector[String] = {
    val found = Arrays.binarySearch(positions, HashRing.position(name))
    val start = if (found >= 0) found else -found - 1
    Iterator.range(0, points.length).map(i => points((start + i) % points.length)._2).distinct.take(count).toVector
  }
}

object HashRing {

  /** A host's share is then within about a tenth of the fair one: 1/√points. */
  private val PointsPerHost = 128

  private def position(name: String): Long = {
    val bytes = name.getBytes(UTF_8)
    MurmurHash3.hash128x64(bytes, 0, bytes.length, 0)(0)
  }
}

/**
 * The hosts that tasks can be sent to now: those of the Spark executors, or those that `fs.s3a.penstock.hosts` names.
 * Never an error and never long: where they are not known there are none.
 */
object LiveHosts {

  /** Host names as the scheduler knows them, separated by commas, for those who are not Spark. */
  val Setting: String = "fs.s3a.penstock.hosts"

  /** A listing asks once per file: old enough that it costs nothing, young enough that a lost executor is noticed. */
  private val FreshNanos = 1000000000L

  final private case class Answer(ring: HashRing, hosts: Set[String], atNanos: Long)

  private val ofSpark = new AtomicReference(Answer(new HashRing(Nil), Set.empty, System.nanoTime - 2 * FreshNanos))

  private val log = LoggerFactory.getLogger(getClass)

  def ring(conf: Configuration): HashRing = {
    val named = conf.getTrimmedStrings(Setting)
    if (named.nonEmpty) new HashRing(named) else sparkRing()
  }

  private def sparkRing(): HashRing = {
    val last = ofSpark.get
    if (System.nanoTime - last.atNanos < FreshNanos) last.ring
    else {
      val hosts = executorHosts()
      val ring = if (hosts == last.hosts) last.ring else new HashRing(hosts)
      ofSpark.set(Answer(ring, hosts, System.nanoTime))
      ring
    }
  }

  private def executorHosts(): Set[String] =
    try org.apache.spark.penstock.ExecutorHosts.now()
    catch {
      // Without Spark on the class path this file system still works for Hadoop's own tools.
      case e @ (NonFatal(_) | _: LinkageError) =>
        log.debug("The hosts of the executors are not known", e)
        Set.empty
    }
}

/**
 * The name of the node an executor is on, in the one word that Spark's list of block managers has for a host's place
 * (`BlockManagerId.topologyInfo`). Where executors are pods their addresses are new with each application, and their
 * nodes, which keep the pages, are not.
 */
object NodeName {

  /** Others use that word too, for racks. */
  private val Prefix = "penstock-node:"

  def asTopology(node: String): String = Prefix + node

  def of(topology: Option[String]): Option[String] = topology.filter(_.startsWith(Prefix)).map(_.drop(Prefix.length))
}

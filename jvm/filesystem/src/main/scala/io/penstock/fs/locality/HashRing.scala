package io.penstock.fs.locality

import java.nio.charset.StandardCharsets.UTF_8
import java.util.Arrays

import org.apache.commons.codec.digest.MurmurHash3

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

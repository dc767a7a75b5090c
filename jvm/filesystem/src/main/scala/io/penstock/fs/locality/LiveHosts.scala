package io.penstock.fs.locality

import java.util.concurrent.atomic.AtomicReference

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.slf4j.LoggerFactory

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

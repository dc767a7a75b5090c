package io.penstock.workloads.reads

import java.nio.file.{Files, Path}
import java.util.Comparator

import scala.jdk.StreamConverters._
import scala.util.{Try, Using}

import org.apache.hadoop.conf.Configuration

import io.penstock.fs.cache.{CacheSettings, PageCaches}

/** The state of Penstock's page cache before a pass. A client without a cache ignores its settings. */
sealed trait Tier {

  /** Configurations for passes; `use` is given the next pass's. */
  def pass[T](configuration: Configuration)(use: Configuration => T): T
}

object Tier {

  def named(name: String, place: Path, onDisk: Boolean): Option[Tier] = name match {
    case "warm" => Some(new Warm(place, onDisk))
    case "cold" => Some(new Cold(place, onDisk))
    case "none" => Some(Off)
    case _ => None
  }

  /** All passes have one cache that keeps everything: what the first has read, the others find. */
  private final class Warm(place: Path, onDisk: Boolean) extends Tier {
    override def pass[T](configuration: Configuration)(use: Configuration => T): T = {
      val keeping = in(place, onDisk, configuration)
      keeping.set(CacheSettings.Admission, "always")
      use(keeping)
    }
  }

  /** Each pass has a new, empty cache of its own, which is there before anything is timed: a process opens one once. */
  private final class Cold(place: Path, onDisk: Boolean) extends Tier {
    override def pass[T](configuration: Configuration)(use: Configuration => T): T = {
      val own = Files.createTempDirectory(place, "pass-")
      try {
        val made = in(own, onDisk, configuration)
        if (made.get(StreamFactory) != null) PageCaches.of(made).foreach(_.keeps)
        use(made)
      } finally remove(own)
    }
  }

  /** No cache takes anything: what is left is the overhead of having one. */
  private object Off extends Tier {
    override def pass[T](configuration: Configuration)(use: Configuration => T): T = {
      val without = new Configuration(configuration)
      without.set(CacheSettings.MemorySize, "0")
      without.set(CacheSettings.DiskSize, "0")
      use(without)
    }
  }

  private def in(directory: Path, onDisk: Boolean, configuration: Configuration): Configuration = {
    val made = new Configuration(configuration)
    val (used, unused) =
      if (onDisk) (CacheSettings.DiskSize, CacheSettings.MemorySize)
      else (CacheSettings.MemorySize, CacheSettings.DiskSize)
    made.set(if (onDisk) CacheSettings.DiskDirectory else CacheSettings.MemoryDirectory, directory.toString)
    made.set(used, Room)
    made.set(unused, "0")
    made
  }

  /**
   * S3A's setting by which its streams are Penstock's; other clients have no cache to open, nor the classes for one.
   */
  private val StreamFactory = "fs.s3a.input.stream.custom.factory"

  /** More than is read: eviction is measured elsewhere. */
  private val Room = "8G"

  /** Best effort: the cache's housekeeping may be at work there, and the lab removes the place at the end. */
  private def remove(directory: Path): Unit = {
    val _ = Try(
      Using.resource(Files.walk(directory))(
        _.sorted(Comparator.reverseOrder[Path]).toScala(Seq).foreach(Files.deleteIfExists(_))
      )
    )
  }
}

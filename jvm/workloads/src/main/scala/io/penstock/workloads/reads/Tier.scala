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

  /**
   * By their names.
   *
   * @param bytes
   *   of the data that are read
   */
  def all(place: Path, onDisk: Boolean, bytes: Long): Map[String, Tier] = Map(
    "warm" -> new Warm(place, onDisk),
    "cold" -> new Cold(place, onDisk),
    "small" -> new Small(place, onDisk, bytes / 4),
    "none" -> Off
  )

  /** All passes have one cache that keeps everything: what the first has read, the others find. */
  private final class Warm(place: Path, onDisk: Boolean) extends Tier {
    override def pass[T](configuration: Configuration)(use: Configuration => T): T = {
      val keeping = in(place, onDisk, configuration, Room)
      keeping.set(CacheSettings.Admission, "always")
      use(keeping)
    }
  }

  /** All passes have one cache, with room for a part of what they read, which it chooses by its own rules. */
  private final class Small(place: Path, onDisk: Boolean, room: Long) extends Tier {
    override def pass[T](configuration: Configuration)(use: Configuration => T): T =
      use(in(place, onDisk, configuration, room))
  }

  /** Each pass has a new, empty cache of its own, which is there before anything is timed: a process opens one once. */
  private final class Cold(place: Path, onDisk: Boolean) extends Tier {
    override def pass[T](configuration: Configuration)(use: Configuration => T): T = {
      val own = Files.createTempDirectory(place, "pass-")
      try {
        val made = in(own, onDisk, configuration, Room)
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

  private def in(directory: Path, onDisk: Boolean, configuration: Configuration, room: Long): Configuration = {
    val made = new Configuration(configuration)
    val (used, unused) =
      if (onDisk) (CacheSettings.DiskSize, CacheSettings.MemorySize)
      else (CacheSettings.MemorySize, CacheSettings.DiskSize)
    made.set(if (onDisk) CacheSettings.DiskDirectory else CacheSettings.MemoryDirectory, directory.toString)
    made.setLong(used, room)
    made.set(unused, "0")
    made
  }

  /**
   * S3A's setting by which its streams are Penstock's; other clients have no cache to open, nor the classes for one.
   */
  private val StreamFactory = "fs.s3a.input.stream.custom.factory"

  /** More than is read. */
  private val Room = 8L << 30

  /** Best effort: the cache's housekeeping may be at work there, and the lab removes the place at the end. */
  private def remove(directory: Path): Unit = {
    val _ = Try(
      Using.resource(Files.walk(directory))(
        _.sorted(Comparator.reverseOrder[Path]).toScala(Seq).foreach(Files.deleteIfExists(_))
      )
    )
  }
}

package io.penstock.fs.commit

import java.io.FileInputStream
import java.util.Properties

import scala.annotation.tailrec
import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.conf.Configuration

import io.penstock.fs.EmptyBodies

final private[commit] case class SweepArguments(conf: Configuration, place: Location, before: Long, dryRun: Boolean)

private[commit] object SweepArguments {

  def read(arguments: List[String]): SweepArguments = {
    @tailrec
    def options(rest: List[String], found: Map[String, String]): Map[String, String] = rest match {
      case Nil => found
      case "--dry-run" :: more => options(more, found + ("--dry-run" -> ""))
      case name :: value :: more if name.startsWith("--") => options(more, found + (name -> value))
      case other :: _ => throw new IllegalArgumentException(s"$other is no option of the sweep")
    }
    val named = options(arguments, Map.empty)
    SweepArguments(
      // It opens the lake as S3A's own class does, and empties commits that it finishes.
      EmptyBodies.added(conf(named("--settings")), named("--bucket")),
      Location(named("--bucket"), named("--prefix")),
      named("--before").toLong,
      named.contains("--dry-run")
    )
  }

  private def conf(file: String): Configuration = {
    val properties = new Properties
    Using.resource(new FileInputStream(file))(properties.load(_))
    val conf = new Configuration
    properties.asScala.foreach { case (name, value) => conf.set(name, value) }
    conf
  }
}

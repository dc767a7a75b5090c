package io.penstock.workloads

import java.nio.charset.StandardCharsets.UTF_8

import scala.util.Using

import com.fasterxml.jackson.databind.{
  DeserializationFeature,
  ObjectMapper,
  PropertyNamingStrategies,
  SerializationFeature
}
import com.fasterxml.jackson.module.scala.{ClassTagExtensions, DefaultScalaModule}
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.spark.sql.Column
import org.apache.spark.sql.functions.{sum, xxhash64}

import io.penstock.application.UsageError

/**
 * The files that hold data, below a directory: not markers, manifests and check sums, as Spark's own readers see it.
 */
object DataFiles {

  /** Recursively; none where there is no such directory. */
  def under(location: String, configuration: Configuration): Seq[FileStatus] = {
    val path = new Path(location)
    val fileSystem = path.getFileSystem(configuration)
    if (!fileSystem.exists(path)) Nil
    else {
      val listing = fileSystem.listFiles(path, true)
      val root = fileSystem.makeQualified(path)
      Iterator.continually(listing).takeWhile(_.hasNext).map(_.next(): FileStatus).filter(isData(_, root)).toSeq
    }
  }

  def bytes(location: String, configuration: Configuration): Long = under(location, configuration).map(_.getLen).sum

  // Neither the file nor a directory on the way to it is hidden; `_date=1` is a partition.
  private def isData(file: FileStatus, root: Path): Boolean = Iterator
    .iterate(file.getPath)(_.getParent)
    .takeWhile(path => path != null && path != root)
    .map(_.getName)
    .forall(name => !name.startsWith(".") && (!name.startsWith("_") || name.contains("=")))
}

/** `_manifest.json` beside generated data: written last, so that where it is, the data is whole. */
class Manifest(location: String, configuration: Configuration) {

  private val path = new Path(location, "_manifest.json")
  private val fileSystem = path.getFileSystem(configuration)

  /** To be called before the first data is touched: from here on it is not whole. */
  def withdraw(): Unit = {
    val _ = fileSystem.delete(path, false)
  }

  /** Write the parameters and the results of the generation; entries keep the order of the map. */
  def write(content: Map[String, Any]): Unit =
    Using.resource(fileSystem.create(path, true))(_.write(Manifest.mapper.writeValueAsString(content).getBytes(UTF_8)))

  /** `content` as it was written, read as a `T`; a `UsageError` where the data is not there or not whole. */
  def read[T: scala.reflect.ClassTag](): T =
    if (fileSystem.exists(path)) Using.resource(fileSystem.open(path))(in => Manifest.mapper.readValue[T](in))
    else throw new UsageError(s"There is no $path: the data there was never generated whole.")
}

object Manifest {
  // A reader asks for what it needs of it, under Scala's names.
  private val mapper: ObjectMapper with ClassTagExtensions = new ObjectMapper() with ClassTagExtensions
  mapper
    .registerModule(DefaultScalaModule)
    .enable(SerializationFeature.INDENT_OUTPUT)
    .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
    .enable(DeserializationFeature.FAIL_ON_MISSING_CREATOR_PROPERTIES)
    .setPropertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE)
}

/**
 * The checksum of a table regardless of the order of its rows: the sum of their hashes. Not the exclusive or, under
 * which a duplicated pair of rows cancels out.
 */
object Checksum {

  /** An aggregate of whole numbers, exact as a decimal; null where there are no rows. */
  def of(columns: Column*): Column = sum(xxhash64(columns: _*).cast("decimal(20,0)"))
}

/** Differences between expected and found values, for the note of a check. */
object Differences {

  /** Compare triples (name, expected, found): None where all are equal, else a text of those that differ. */
  def of(pairs: (String, Any, Any)*): Option[String] = {
    val wrong = pairs.collect { case (what, wanted, found) if wanted != found => s"$what: $found instead of $wanted" }
    Option.when(wrong.nonEmpty)(wrong.mkString("; "))
  }
}

/**
 * Two numbers mixed into one whose bits look random: what generated data draws from, so that each row depends on its
 * own number alone. The mixing function is the finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable
 * pseudorandom number generators, 2014).
 */
object Mixed {

  private val GoldenGamma = 0x9e3779b97f4a7c15L

  def apply(seed: Long, number: Long): Long = finish(finish(seed + GoldenGamma) + number * GoldenGamma)

  /** From 0 to `bound` - 1. */
  def below(bound: Int, seed: Long, number: Long): Int =
    java.lang.Long.remainderUnsigned(apply(seed, number), bound).toInt

  private def finish(value: Long): Long = {
    val once = (value ^ (value >>> 30)) * 0xbf58476d1ce4e5b9L
    val twice = (once ^ (once >>> 27)) * 0x94d049bb133111ebL
    twice ^ (twice >>> 31)
  }
}

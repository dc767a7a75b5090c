package io.penstock.workloads.reads

import java.io.FileInputStream
import java.util.Properties

import scala.collection.immutable.ListMap
import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import io.penstock.application.{Application, Arguments}
import io.penstock.workloads.Manifest
import io.penstock.workloads.clients.{Content, ContentStream, Place}

/**
 * Writes the objects that `Reads` reads, in any file system of Hadoop, with a manifest at the end. No Spark: one thread
 * of one process. Data at `--location` is replaced; an interrupted generation leaves no manifest.
 */
object GenerateObjects extends Application {

  private val usage =
    s"GenerateObjects --location URI ${HadoopSettings.Usage} [--size 256m] [--small-objects N] [--small-size 256k]"
  private val known = Set("location", "settings", "size", "small-objects", "small-size")

  override def run(arguments: Seq[String]): Int = {
    val options = Arguments.parse(arguments, known, usage)
    val location = options.required("location").stripSuffix("/")
    val data = ReadObjects(
      options.size("size", "256m"),
      options.int("small-objects", 256, atLeast = 1),
      options.size("small-size", "256k")
    )
    generate(data, location, HadoopSettings.of(options))
    0
  }

  private[reads] def generate(data: ReadObjects, location: String, configuration: Configuration): Unit = {
    val _ = new Path(location).getFileSystem(configuration).delete(new Path(location), true)
    val stream = new ContentStream(new Content(ReadObjects.Seed))
    for (one <- data.objects)
      Using.resource(Place.create(one.path(location), configuration))(stream.write(_, one.number.toLong, one.length))
    new Manifest(location, configuration).write(
      ListMap[String, Any](
        "size" -> data.size,
        "small_objects" -> data.smallObjects,
        "small_size" -> data.smallSize,
        "bytes" -> data.bytes
      )
    )
  }
}

/**
 * The objects to read: one large and many small ones, whose bytes follow from their numbers alone (see `Content`).
 *
 * @param size
 *   bytes of the large object
 * @param smallSize
 *   bytes of each small object
 */
final case class ReadObjects(size: Long, smallObjects: Int, smallSize: Long) {

  def bytes: Long = size + smallObjects * smallSize

  def objects: Seq[ReadObjects.Object] =
    ReadObjects.Object(0, "large", size) +: (1 to smallObjects).map(n =>
      ReadObjects.Object(n, f"small/$n%06d", smallSize)
    )
}

object ReadObjects {

  /** The same everywhere: copies in other places are the same data. */
  val Seed = 4L

  final case class Object(number: Int, name: String, length: Long) {
    def path(location: String): Path = new Path(s"$location/$name")
  }
}

/** Hadoop's configuration as an application with these settings gives it to its tasks, without any Spark. */
object HadoopSettings {

  val Usage = "[--settings FILE of Spark's settings]"

  private val Prefix = "spark.hadoop."

  def of(options: Arguments): Configuration = {
    val configuration = new Configuration
    for (file <- options.optional("settings")) {
      val properties = new Properties
      Using.resource(new FileInputStream(file))(properties.load)
      for ((key, value) <- properties.asScala if key.startsWith(Prefix))
        configuration.set(key.stripPrefix(Prefix), value)
    }
    configuration
  }
}

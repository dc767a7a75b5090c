package io.penstock.workloads.reads

import scala.collection.immutable.ListMap
import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import io.penstock.workloads.clients.{Content, ContentStream, Place}
import io.penstock.workloads.{Application, Arguments, Manifest}

/**
 * Writes the objects that `Reads` reads, in any file system of Hadoop, with a manifest at the end. No Spark: one thread
 * of one process. What is at `--location` is replaced; a generation that was cut short leaves no manifest.
 */
object Generate extends Application {

  private val usage =
    s"Generate --location URI ${HadoopSettings.Usage} [--size 256m] [--small-objects N] [--small-size 256k]"
  private val known = Set("location", "settings", "size", "small-objects", "small-size")

  override def run(arguments: Seq[String]): Int = {
    val options = Arguments.parse(arguments, known, usage)
    val location = options.required("location").stripSuffix("/")
    val data = DataSet(
      options.size("size", "256m"),
      options.int("small-objects", 256, atLeast = 1),
      options.size("small-size", "256k")
    )
    generate(data, location, HadoopSettings.of(options))
    0
  }

  private[reads] def generate(data: DataSet, location: String, configuration: Configuration): Unit = {
    val _ = new Path(location).getFileSystem(configuration).delete(new Path(location), true)
    val stream = new ContentStream(new Content(DataSet.Seed))
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

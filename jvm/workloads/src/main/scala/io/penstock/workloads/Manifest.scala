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
import org.apache.hadoop.fs.Path

/** `_manifest.json` beside generated data: written last, so that where it is, the data is whole. */
class Manifest(location: String, configuration: Configuration) {

  private val path = new Path(location, "_manifest.json")
  private val fileSystem = path.getFileSystem(configuration)

  /** To be called before the first data is touched: from here on it is not whole. */
  def withdraw(): Unit = {
    val _ = fileSystem.delete(path, false)
  }

  /** What the data was generated from and what it came to; entries appear in the order of the map. */
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

package io.penstock.workloads.tpcds

import java.nio.charset.StandardCharsets.UTF_8

import scala.collection.immutable.ListMap

import com.fasterxml.jackson.databind.{ObjectMapper, SerializationFeature}
import com.fasterxml.jackson.module.scala.DefaultScalaModule
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/** `_manifest.json` beside the tables: written last, so that where it is, the data is whole. */
class LoadManifest(location: String, configuration: Configuration) {

  private val path = new Path(location, "_manifest.json")
  private val fileSystem = path.getFileSystem(configuration)

  /** To be called before the first table is touched: from here on the data is not whole. */
  def withdraw(): Unit = {
    val _ = fileSystem.delete(path, false)
  }

  def write(scale: Double, objectSize: Long, versions: Map[String, String], tables: Seq[LoadedTable]): Unit = {
    val content = ListMap[String, Any](
      "scale" -> scale,
      "object_size" -> objectSize,
      "versions" -> versions,
      "tables" -> tables.map(describe)
    )
    val json = LoadManifest.mapper.writeValueAsString(content)
    val out = fileSystem.create(path, true)
    try out.write(json.getBytes(UTF_8))
    finally out.close()
  }

  private def describe(loaded: LoadedTable): Map[String, Any] = ListMap(
    "table" -> loaded.plan.table.name,
    "rows" -> loaded.rows,
    "bytes" -> loaded.bytes,
    "files" -> loaded.files,
    "partitions" -> loaded.partitions,
    "partition_column" -> loaded.plan.partitionColumn,
    "layout" -> loaded.plan.description
  )
}

object LoadManifest {
  private val mapper = new ObjectMapper().registerModule(DefaultScalaModule).enable(SerializationFeature.INDENT_OUTPUT)
}

package io.penstock.workloads

import java.io.OutputStream
import java.nio.charset.StandardCharsets.UTF_8

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.module.scala.DefaultScalaModule
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/**
 * One file of JSON objects, one a line, in any Hadoop file system. An object store shows the file only once it is
 * closed, whole; a file system with real files shows each line as it is written.
 */
class JsonLines(out: OutputStream) extends AutoCloseable {

  /** Map entries appear in the order of the map: use a `ListMap` where people will read it. */
  def write(line: Map[String, Any]): Unit = {
    out.write((JsonLines.mapper.writeValueAsString(line) + "\n").getBytes(UTF_8))
    out.flush()
  }

  override def close(): Unit = out.close()
}

object JsonLines {
  private val mapper = new ObjectMapper().registerModule(DefaultScalaModule)

  /** Replaces what is at `uri`. */
  def create(uri: String, configuration: Configuration): JsonLines = {
    val path = new Path(uri)
    new JsonLines(path.getFileSystem(configuration).create(path, true))
  }
}

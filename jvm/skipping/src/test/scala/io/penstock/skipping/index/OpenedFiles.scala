package io.penstock.skipping.index

import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.{FSDataInputStream, Path}

import io.penstock.skipping.PlainLocalFileSystem

/** The local files, noting which are opened. */
class OpenedFiles extends PlainLocalFileSystem {
  override def open(file: Path, bufferSize: Int): FSDataInputStream = {
    OpenedFiles.names.add(file.getName)
    super.open(file, bufferSize)
  }
}

object OpenedFiles {
  private val names = new ConcurrentLinkedQueue[String]

  // Other suites of this process have their own local file system in Hadoop's cache.
  val settings: Map[String, String] = Map(
    "spark.hadoop.fs.file.impl" -> classOf[OpenedFiles].getName,
    "spark.hadoop.fs.file.impl.disable.cache" -> "true"
  )

  /** The names of the files that were opened meanwhile. */
  def during[A](action: => A): (A, Seq[String]) = {
    names.clear()
    val result = action
    (result, names.asScala.toVector)
  }
}

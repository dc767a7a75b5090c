package io.penstock.skipping.model

import java.util.UUID

import scala.util.Try

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._

/**
 * Replacement of small files that others are reading. Thread-safe; several processes may replace one file, and the last
 * one stands.
 */
private[skipping] object AtomicFile {

  /**
   * Replace the file: a reader sees the former content or the new one, whole. Throws an `IOException`, and has then
   * changed nothing.
   */
  def replace(file: Path, content: Array[Byte], conf: Configuration): Unit = {
    val fs = file.getFileSystem(conf)
    def write(to: Path): Unit = {
      val out = fs.create(to, true)
      try out.write(content)
      catch { case failure: Throwable => discard(out); throw failure }
      // On an object store close() publishes the object; where it fails, there is none.
      out.close()
    }
    // Object stores show an object only when it is whole, and rename by copying; file systems do the opposite.
    if (fs.hasPathCapability(file, CommonPathCapabilities.ABORTABLE_STREAM)) write(file)
    else {
      val temporary = new Path(file.getParent, s".${file.getName}.${UUID.randomUUID}")
      try {
        write(temporary)
        overwrite(FileContext.getFileContext(fs.getUri, conf), temporary, file)
      } finally fs.delete(temporary, false)
    }
  }

  /** Drop the stream without closing it, which would publish the part that was written. */
  private def discard(out: FSDataOutputStream): Unit =
    if (out.hasCapability(CommonPathCapabilities.ABORTABLE_STREAM)) out.abort(): Unit else Try(out.close()): Unit

  /**
   * Rename over the file. For local files Hadoop first deletes the old one, so another writer's may appear in between.
   */
  private def overwrite(files: FileContext, from: Path, to: Path): Unit =
    Iterator.range(1, Attempts + 1).find { attempt =>
      try {
        files.rename(from, to, Options.Rename.OVERWRITE)
        true
      } catch { case _: FileAlreadyExistsException if attempt < Attempts => false }
    }: Unit

  private val Attempts = 20
}

package io.penstock.skipping.model

import java.util.UUID

import scala.util.Try

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._

/** Small files that are replaced while others read them. */
private[skipping] object AtomicFile {

  /** Readers see what was there before, or all of this. Throws an `IOException`; nothing has changed then. */
  def replace(file: Path, content: Array[Byte], conf: Configuration): Unit = {
    val fs = file.getFileSystem(conf)
    def write(to: Path): Unit = {
      val out = fs.create(to, true)
      try out.write(content)
      catch { case failure: Throwable => discard(out); throw failure }
      // Of an object store this is what publishes the object; where it fails, there is none.
      out.close()
    }
    // Object stores show an object only when it is whole, and rename by copying; file systems are the other way round.
    if (fs.hasPathCapability(file, CommonPathCapabilities.ABORTABLE_STREAM)) write(file)
    else {
      val temporary = new Path(file.getParent, s".${file.getName}.${UUID.randomUUID}")
      try {
        write(temporary)
        overwrite(FileContext.getFileContext(fs.getUri, conf), temporary, file)
      } finally fs.delete(temporary, false)
    }
  }

  /** Closing would publish what was written so far. */
  private def discard(out: FSDataOutputStream): Unit =
    if (out.hasCapability(CommonPathCapabilities.ABORTABLE_STREAM)) out.abort(): Unit else Try(out.close()): Unit

  /** Of local files Hadoop deletes the old one first and renames then: another writer's may have come in between. */
  private def overwrite(files: FileContext, from: Path, to: Path): Unit =
    Iterator.range(1, Attempts + 1).find { attempt =>
      try {
        files.rename(from, to, Options.Rename.OVERWRITE)
        true
      } catch { case _: FileAlreadyExistsException if attempt < Attempts => false }
    }: Unit

  private val Attempts = 20
}

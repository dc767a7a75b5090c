package io.penstock.cluster.scratch

import java.io.File
import java.util.concurrent.atomic.LongAdder

/**
 * A file that counts what was written to it and tells when it is gone. Spark says neither: it writes, renames and
 * removes plain files, but through the very objects it was given.
 *
 * Each byte counts once: that of a file that is renamed into place, then; that of any other, when it is removed.
 */
final private[scratch] class ScratchFile(
    name: ScratchName,
    file: File,
    bytes: LongAdder,
    forget: (ScratchName, Long) => Unit,
    sibling: Boolean = false
) extends File(file.getPath) {

  def sibling(temporary: File): File = new ScratchFile(name, temporary, bytes, forget, sibling = true)

  override def renameTo(target: File): Boolean = {
    val size = length
    val renamed = super.renameTo(target)
    if (renamed) bytes.add(size)
    renamed
  }

  override def delete(): Boolean = {
    val size = length
    val deleted = super.delete()
    if (deleted) {
      if (name.temporary || sibling) bytes.add(size)
      forget(name, size)
    }
    deleted
  }
}

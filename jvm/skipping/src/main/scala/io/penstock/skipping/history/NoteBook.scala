package io.penstock.skipping.history

import java.util.concurrent.TimeUnit

import scala.collection.mutable

/**
 * What one application has noted so far; questions that come again are counted. Written from time to time and at the
 * end: a driver that is killed loses what it noted since. Used by several threads.
 *
 * @param write
 *   replaces what was written before
 */
private[history] class NoteBook(write: Array[Byte] => Unit, now: () => Long = () => System.nanoTime) {

  import NoteBook._

  private val notes = mutable.LinkedHashMap.empty[String, ScanNote]
  private var dropped = 0L
  private var changed = false
  private var written = Option.empty[Long]

  def add(scans: Seq[ScanNote]): Unit = synchronized {
    for (scan <- scans) {
      val question = NoteFile.identity(scan)
      notes(question) = notes.get(question).fold(scan)(_.and(scan))
      if (notes.size > MostQuestions) {
        val (least, note) = notes.minBy(_._2.bytes)
        notes -= least
        dropped += note.scans
      }
      changed = true
    }
    if (written.forall(now() - _ >= Pause)) flush()
  }

  def flush(): Unit = synchronized {
    if (changed) {
      // Also where it fails: the next attempt is not to be made by the very next query.
      written = Some(now())
      write(NoteFile.write(notes.values, dropped))
      changed = false
    }
  }
}

private[history] object NoteBook {

  /** An application of more different questions is known well enough by those that read most. */
  val MostQuestions = 500

  private val Pause = TimeUnit.SECONDS.toNanos(10)
}

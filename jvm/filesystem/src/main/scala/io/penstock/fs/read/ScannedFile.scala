package io.penstock.fs.read

import java.util.concurrent.ConcurrentHashMap

import org.apache.hadoop.fs.Path

/** The listing of a file, as a scan received it. `modified` is in milliseconds since 1970. */
final private[fs] case class ScannedFile(path: Path, length: Long, modified: Long)

/** The file that a thread is opening for a scan: whoever opens it asks for its status, which the scan has already. */
private[fs] object ScannedFile {

  /** So many are never about to be opened at once: what is more was asked for and never opened. */
  private val MostAwaited = 10000

  private val current = new ThreadLocal[ScannedFile]
  private val awaited = ConcurrentHashMap.newKeySet[ScannedFile]()

  def opening[A](file: ScannedFile)(open: => A): A = {
    current.set(file)
    try open
    finally current.remove()
  }

  def at(path: Path): Option[ScannedFile] = Option(current.get).filter(_.path == path)

  /** A status was made of it: S3A opens the file in another thread, by a status of its own making. */
  def await(file: ScannedFile): Unit = {
    if (awaited.size >= MostAwaited) awaited.clear()
    awaited.add(file)
    ()
  }

  /** Whether this is the opening of a file that was awaited. */
  def isAwaited(file: ScannedFile): Boolean = awaited.remove(file)

  private[read] def waiting: Int = awaited.size
}

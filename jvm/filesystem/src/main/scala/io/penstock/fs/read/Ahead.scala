package io.penstock.fs.read

import java.io.{IOException, InterruptedIOException}

import io.penstock.fs.cache.Page

/**
 * Pages on their way to the cache in the background, for one reader who will want them soon. A failure is none of the
 * reader's business: what has not come it asks for itself.
 *
 * The reader never waits for a thread of a pool: a fetch that has not begun when its pages are wanted is called off.
 */
final private[read] class Ahead(val request: Request, fetch: (Request, PageSink, () => Boolean) => Unit)
    extends Runnable {

  private var begun = false
  private var over = false

  /** Pages before this one have come, or will not. */
  private var next = request.first

  @volatile private var stopped = false

  /** Nobody wants the pages any more. */
  def stop(): Unit = stopped = true

  override def run(): Unit =
    if (begins())
      try fetch(request, Progress, () => stopped)
      catch { case _: IOException => () }
      finally
        synchronized {
          over = true
          notifyAll()
        }

  private def begins(): Boolean = synchronized {
    begun = !stopped
    begun
  }

  private object Progress extends PageSink {
    override def givesOut: Boolean = false
    override def arrived(index: Long, page: Page): Boolean = true

    override def fetched(index: Long, data: Array[Byte], length: Int): Boolean = {
      Ahead.this.synchronized {
        next = math.max(next, index + 1)
        Ahead.this.notifyAll()
      }
      false
    }
  }

  /**
   * Waits until `page`, one of the request's, has come or will not.
   *
   * @throws java.io.InterruptedIOException
   *   if the thread is interrupted, as it stays
   * @return
   *   the pages that the reader has to fetch itself because this fetch has not begun, and now never will
   */
  def await(page: Long): Option[Request] = synchronized {
    if (!begun) {
      stopped = true
      Some(Request(page, request.last))
    } else {
      try while (!over && next <= page) wait()
      catch {
        case e: InterruptedException =>
          Thread.currentThread.interrupt()
          throw new InterruptedIOException(s"interrupted while page $page was on its way").initCause(e)
      }
      None
    }
  }
}

package io.penstock.fs.write

import java.nio.ByteBuffer

/**
 * Cuts the bytes of an object, handed over in order and in pieces of any size, into its pages. Holds one page.
 *
 * @param length
 *   of the object, in bytes
 * @param keep
 *   takes a page by its index; the buffer is used again after it returns
 */
final private[write] class PageAssembly(length: Long, pageSize: Int, keep: (Long, ByteBuffer) => Unit) {

  private val page = ByteBuffer.allocate(length.min(pageSize.toLong).toInt)
  private var position = 0L
  private var whole = true

  /**
   * The next `count` bytes.
   *
   * @param copy
   *   fills the buffer with the bytes from this position of the piece on; false if it cannot, and then no page that
   *   holds any of them is kept
   */
  def add(count: Long)(copy: (Long, ByteBuffer) => Boolean): Unit = {
    var done = 0L
    while (done < count) {
      val size = page.remaining.toLong.min(count - done).toInt
      val end = page.position() + size
      whole = copy(done, page.slice(page.position(), size)) && whole
      page.position(end)
      done += size
      position += size
      if (!page.hasRemaining || position == length) finishPage()
    }
  }

  private def finishPage(): Unit = {
    page.flip()
    if (whole) keep((position - 1) / pageSize, page)
    page.clear()
    whole = true
  }
}

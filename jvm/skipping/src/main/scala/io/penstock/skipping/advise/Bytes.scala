package io.penstock.skipping.advise

import java.util.Locale

private[advise] object Bytes {

  private val units = Seq("B", "KiB", "MiB", "GiB", "TiB")

  /** In the largest unit that leaves a number above one. */
  def text(bytes: Long): String = {
    val unit = units.indices.findLast(i => bytes >= (1L << (10 * i))).getOrElse(0)
    if (unit == 0) s"$bytes B" else "%.1f %s".formatLocal(Locale.ROOT, bytes / math.pow(1024, unit), units(unit))
  }
}

package io.penstock.fs.pool

import org.apache.hadoop.fs.s3a.Constants.MAXIMUM_CONNECTIONS

/** What is wrong with a pool that has no connection left, why, and how to fix it. Pure. */
private[pool] object Diagnosis {

  private val Shown = 10

  /**
   * @param calls
   *   requests that are on their way or wait for a connection, without those whose answer is being read
   * @param nowNs
   *   on the clock of the responses' `sinceNs`
   */
  def of(maximum: Int, open: Seq[OpenResponses.Held], calls: Int, nowNs: Long): String = {
    val demand = open.size + calls
    val oldest = open.sortBy(_.sinceNs - nowNs)
    val listed = oldest.take(Shown).map(response => s"\n  ${line(response, nowNs)}").mkString
    val more = if (open.size > Shown) s"\n  … and ${open.size - Shown} more, opened later" else ""
    val holders = if (open.isEmpty) "" else s"\nOpen streams, oldest first, each with its connection:$listed$more"
    s"No connection to the store was free in time: the pool has $maximum ($MAXIMUM_CONNECTIONS), " +
      s"${open.size} are held by open streams, and $calls requests are on their way or wait.$holders\n${fix(maximum, open.size, demand)}"
  }

  private def fix(maximum: Int, open: Int, demand: Int): String = {
    val larger = s"set $MAXIMUM_CONNECTIONS to ${demand.max(maximum) * 2} or more"
    if (open * 2 > maximum)
      s"Close each stream after use, also after an error; if all of these are needed at once, $larger."
    else s"More requests are made at once than there are connections: $larger, or lower fs.s3a.threads.max."
  }

  private def line(response: OpenResponses.Held, nowNs: Long): String = {
    val place = if (response.place.isEmpty) "" else response.place.mkString(" at ", " < ", "")
    f"${response.path} for ${(nowNs - response.sinceNs) / 1e9}%.1f s by thread “${response.thread}”$place"
  }
}

package io.penstock.fs.testing

import io.penstock.fs.Counters

/** Which requests S3A sends, of all its clients in this JVM. */
object Requests {

  /** How many of each kind while `work` was done; kinds that were not sent are left out. */
  def during(work: => Unit): Map[String, Long] = {
    val before = sent()
    work
    sent().map { case (kind, count) => kind -> (count - before(kind)) }.filter(_._2 != 0)
  }

  private def sent(): Map[String, Long] =
    Counters.RequestsByKind.map(requests => requests.kind -> requests.sent.value).toMap
}

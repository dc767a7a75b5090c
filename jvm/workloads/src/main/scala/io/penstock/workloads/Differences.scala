package io.penstock.workloads

/** What was wanted and what was found, compared: for the note of a check. */
object Differences {

  /** Of (what it is, wanted, found): none where all are equal, else each that is not. */
  def of(pairs: (String, Any, Any)*): Option[String] = {
    val wrong = pairs.collect { case (what, wanted, found) if wanted != found => s"$what: $found instead of $wanted" }
    Option.when(wrong.nonEmpty)(wrong.mkString("; "))
  }
}

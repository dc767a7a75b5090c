package io.penstock.cluster

/** Sums that only grow, of one process or several, by name; a name that is not there is zero. */
private[cluster] object CountsOfAll {

  /** Of two readings of one process the later, in whatever order they came. */
  def later(a: Map[String, Long], b: Map[String, Long]): Map[String, Long] = merge(a, b)(_ max _)

  /** Of two processes together. */
  def sum(a: Map[String, Long], b: Map[String, Long]): Map[String, Long] = merge(a, b)(_ + _)

  private def merge(a: Map[String, Long], b: Map[String, Long])(join: (Long, Long) => Long): Map[String, Long] =
    b.foldLeft(a) { case (all, (name, value)) =>
      all.updatedWith(name)(known => Some(known.fold(value)(join(_, value))))
    }
}

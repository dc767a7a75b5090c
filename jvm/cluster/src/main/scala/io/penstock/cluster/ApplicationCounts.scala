package io.penstock.cluster

/**
 * What the file systems of driver and executors have counted together, for code that runs in the driver.
 *
 * Executors tell of a task's counts before they tell of its end: after an action, its requests are in here.
 */
object ApplicationCounts {

  @volatile private var observed: Option[() => Map[String, Long]] = None

  /** Every sum by its name (`io.penstock.fs.Counters`); None where the application is not observed. */
  def now(): Option[Map[String, Long]] = observed.map(_())

  private[cluster] def from(counts: () => Map[String, Long]): Unit = observed = Some(counts)

  private[cluster] def none(): Unit = observed = None
}

package io.penstock.suites

/** What this run of the suites is: over Penstock, or over Spark alone on the same tables. */
object Arm {

  /** `spark`: what fails then is no finding. */
  val isPenstock: Boolean = sys.props.getOrElse("penstock.suites.arm", "penstock") match {
    case "penstock" => true
    case "spark" => false
    case other => throw new IllegalArgumentException(s"penstock.suites.arm is penstock or spark, not $other")
  }

  def name: String = if (isPenstock) "penstock" else "spark"

  /** Settings of all sessions, `NAME=VALUE` with semicolons between them. */
  val settings: Map[String, String] =
    sys.props
      .get("penstock.suites.settings")
      .toSeq
      .flatMap(_.split(';'))
      .map(_.trim.split("=", 2))
      .collect { case Array(name, value) => name -> value }
      .toMap

  /**
   * Whether writes to the store end with an index too; each then waits for two seconds, until its files are settled.
   */
  val indexesOnTheStore: Boolean = sys.props.get("penstock.suites.store.indexes").contains("true")
}

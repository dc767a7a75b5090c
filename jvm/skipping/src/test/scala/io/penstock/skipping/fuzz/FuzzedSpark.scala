package io.penstock.skipping.fuzz

/** What the suites that fuzz have in common. */
object FuzzedSpark {

  private def property(name: String): Option[String] = sys.props.get(s"penstock.fuzz.$name")

  /** How many queries are asked, each in several ways. */
  val queries: Int = property("queries").flatMap(_.toIntOption).getOrElse(0)

  private val seeds: Seq[Long] = property("seed").toSeq.flatMap(_.split(':')).flatMap(_.toLongOption)

  /** The first world's: another one each time where `random` is asked for. */
  val seed: Long = seeds.headOption.getOrElse(System.nanoTime() & 0xffffff)

  /** The one query of that world that is to be repeated. */
  val only: Option[Int] = seeds.drop(1).headOption.map(_.toInt)

  val settings: Map[String, String] = Map(
    "spark.sql.datetime.java8API.enabled" -> "true",
    "spark.sql.session.timeZone" -> "UTC",
    // What has bounds; batches are written in other ways, too.
    "spark.sql.parquet.outputTimestampType" -> "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec" -> "uncompressed",
    "spark.shuffle.compress" -> "false",
    "spark.broadcast.compress" -> "false",
    // Telling the UI of each plan as it changes would take longer than to run it.
    "spark.sql.ui.explainMode" -> "simple",
    // An index replaced is an index seen.
    "spark.penstock.skipping.index.max.age" -> "0s"
  )
}

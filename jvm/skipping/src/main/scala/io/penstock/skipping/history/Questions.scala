package io.penstock.skipping.history

import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.slf4j.LoggerFactory

import io.penstock.skipping.SkippingSettings
import io.penstock.skipping.index.Asked

/** What was asked of a table, for whoever chooses the columns of its index. */
object Questions {

  private val log = LoggerFactory.getLogger(getClass)

  /** None where no history is kept, or it cannot be read: then the files alone say which columns are worth it. */
  def of(spark: SparkSession, table: Path): Seq[Asked] =
    try
      for {
        directory <- new SkippingSettings(spark.sessionState.conf).history.toSeq
        note <- new History(directory, spark.sessionState.newHadoopConf()).of(table.toString)
        Condition(column, _, Some(keys)) <- note.conditions
      } yield Asked(column, note.scans, keys)
    catch {
      case NonFatal(e) =>
        log.warn(s"What queries asked of $table is not known, its columns are chosen by the files alone: $e")
        Nil
    }
}

package io.penstock.skipping.index

import org.apache.spark.sql.catalyst.util.RebaseDateTime
import org.apache.spark.sql.types._

/**
 * Old files hold dates and times of the Julian calendar, which Spark changes as it reads; for files that do not say
 * which calendar is theirs, the reading session's settings decide. Values after the calendars' last difference are the
 * same in both.
 */
private[index] object Calendar {

  /**
   * Written by Spark into its files: its version, and that values are of the old calendar although the version is new.
   */
  private val Version = "org.apache.spark.version"
  private val Legacy = "org.apache.spark.legacyDateTime"

  /** Whether every session reads dates and times as the file has them. */
  def isModern(metadata: java.util.Map[String, String]): Boolean =
    Option(metadata.get(Version)).exists(_ >= "3.0.0") && !metadata.containsKey(Legacy)

  /** What is left of an entry when nothing may depend on the calendar. */
  def guard(entry: ColumnEntry, dataType: DataType, isModern: Boolean): ColumnEntry = {
    val same = sameSince(dataType).forall { first =>
      isModern || (entry.minimum match {
        case Some(Value.Integral(minimum)) => minimum >= first
        case _ => false
      })
    }
    if (same) entry else ColumnEntry(nulls = entry.nulls)
  }

  private def sameSince(dataType: DataType): Option[Long] = dataType match {
    case DateType => Some(RebaseDateTime.lastSwitchJulianDay.toLong)
    case TimestampType => Some(RebaseDateTime.lastSwitchJulianTs)
    // Spark does not change these; nothing is lost by treating them alike, should it ever.
    case TimestampNTZType => Some(RebaseDateTime.lastSwitchJulianTs)
    case _ => None
  }
}

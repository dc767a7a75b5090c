package io.penstock.skipping.join

import java.util.Locale

import org.apache.hadoop.util.StringUtils.TraditionalBinaryPrefix

import io.penstock.skipping.index.ColumnSummary

/**
 * Whether it is likely to pay to skip a table's files by a join's keys. Pure: only from estimates.
 *
 * @param maxFilesPerKey
 *   a column in whose files a random key is found in more than this share, 0 to 1, is not worth it
 * @param secondRunBytes
 *   the most that a run beside the query may read for its keys
 */
private[join] class Benefit(maxFilesPerKey: Double, secondRunBytes: Long) {

  import Benefit._

  /** None if files can be skipped by the column, else why not. */
  def refuseColumn(column: Option[ColumnSummary], files: Int): Option[String] = column match {
    case None => Some("the index does not cover it")
    case Some(_) if files < 2 => Some("the table is one file")
    case Some(summary) if summary.filesPerKey > maxFilesPerKey =>
      Some(s"a key is found in ${percent(summary.filesPerKey)} of the files (at most ${percent(maxFilesPerKey)} pays)")
    case Some(_) => None
  }

  /** How to come by the keys, or why not to. `targetBytes`: what the filtered table is estimated to read. */
  def keys(source: Estimate, targetBytes: => BigInt): Either[String, KeyUse] = {
    lazy val most = targetBytes
    lazy val cheap = source.bytes <= secondRunBytes && source.bytes < most
    if (!source.restricted) Left(s"nothing filters ${source.tables}")
    else if (!source.repeatable) Left(s"a second run of ${source.tables} might give other keys")
    else if (source.broadcast) Right(if (cheap) BroadcastOrSecondRun else BroadcastOnly)
    else if (cheap) Right(BroadcastOrSecondRun)
    else
      Left(
        s"${source.tables} is not broadcast, and its ${bytes(source.bytes)} are too much to read twice " +
          s"(at most ${bytes(most.min(secondRunBytes))} pay)"
      )
  }
}

private[join] object Benefit {

  /** What is known of a source of keys before it runs. */
  case class Estimate(tables: String, bytes: BigInt, restricted: Boolean, repeatable: Boolean, broadcast: Boolean)

  /** How the keys are come by. */
  sealed trait KeyUse

  /** From the join's broadcast; not at all where there is none in the end. */
  case object BroadcastOnly extends KeyUse

  /** From the join's broadcast, or where there is none in the end from a run beside the query. */
  case object BroadcastOrSecondRun extends KeyUse

  private def percent(share: Double): String = String.format(Locale.ROOT, "%.0f %%", share * 100)

  private def bytes(size: BigInt): String =
    TraditionalBinaryPrefix.long2String(size.min(Long.MaxValue).toLong, "B", 0)
}

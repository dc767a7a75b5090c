package io.penstock.skipping.model

import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.LongAdder

import org.apache.spark.network.util.ByteUnit
import org.apache.spark.sql.internal.SQLConf

/** The session's settings under `spark.penstock.skipping.`; each may be changed between two queries. */
class SkippingSettings(conf: SQLConf) {

  import SkippingSettings._

  /** Whether files are skipped at all. */
  def enabled: Boolean = conf.getConf(Enabled)

  /** Whether the keys of joins are used. */
  def dynamic: Boolean = enabled && conf.getConf(Dynamic)

  /** Whether filters are followed through other joins of the same query. */
  def transitive: Boolean = dynamic && conf.getConf(Transitive)

  /** More keys than this are compressed to so many intervals. */
  def maxKeys: Int = conf.getConf(MaxKeys)

  /** A join's side whose broadcast cannot be reused is run a second time up to this estimated size; 0: never. */
  def secondRunBytes: Long = conf.getConf(SecondRun)

  /** A column in whose files a random key is found in more than this share is not worth skipping by. */
  def maxFilesPerKey: Double = conf.getConf(MaxFilesPerKey)

  /** Whether skipped files are read all the same, and the query fails if one of them would have contributed. */
  def verify: Boolean = conf.getConf(Verify)

  /** For how long the driver does not look again whether a table's index was replaced. */
  def indexAgeMs: Long = conf.getConf(IndexAge)

  /** Whether writes through this session refresh the index of a table that has one. */
  def refreshOnWrite: Boolean = conf.getConf(RefreshOnWrite)

  /** The URI of the directory of notes on filters and joins, for advice on layouts; None keeps no notes. */
  def history: Option[String] = conf.getConf(History).filter(_.nonEmpty)

  /** The size of the objects of a table in a new layout, in bytes. */
  def objectBytes: Long = conf.getConf(ObjectSize)
}

/**
 * The settings, declared as Spark's own: `SET` refuses a value of the wrong type, `SET -v` explains them, and the
 * build's list of known settings contains them.
 */
object SkippingSettings {

  val Prefix = "spark.penstock.skipping."

  /** Load this object, which registers the settings. */
  def register(): Unit = ()

  private val Enabled = SQLConf
    .buildConf(Prefix + "enabled")
    .doc("Whether files that cannot match are skipped, where a table has a skipping index.")
    .booleanConf
    .createWithDefault(true)

  private val Dynamic = SQLConf
    .buildConf(Prefix + "dynamic.enabled")
    .doc("Whether the keys of a join's selective side, known at run time only, skip files of the other side.")
    .booleanConf
    .createWithDefault(true)

  private val Transitive = SQLConf
    .buildConf(Prefix + "transitive.enabled")
    .doc("Whether filters are followed through other joins of the same query.")
    .booleanConf
    .createWithDefault(true)

  private val MaxKeys = SQLConf
    .buildConf(Prefix + "dynamic.max.keys")
    .doc("More keys than this are compressed to so many intervals.")
    .intConf
    .checkValue(_ > 0, "there is at least one interval")
    .createWithDefault(10000)

  private val SecondRun = SQLConf
    .buildConf(Prefix + "dynamic.second.run.max.bytes")
    .doc("A join's side whose broadcast cannot be reused is run a second time up to this estimated size; 0: never.")
    .bytesConf(ByteUnit.BYTE)
    .createWithDefaultString("10m")

  private val MaxFilesPerKey = SQLConf
    .buildConf(Prefix + "dynamic.max.files.per.key")
    .doc("A column of whose files more than this share (0 to 1) may hold a random key is not worth skipping by.")
    .doubleConf
    .createWithDefault(0.5)

  private val Verify = SQLConf
    .buildConf(Prefix + "verify")
    .doc("Reads skipped files all the same, and fails the query if one of them would have contributed a row.")
    .booleanConf
    .createWithDefault(false)

  private val IndexAge = SQLConf
    .buildConf(Prefix + "index.max.age")
    .doc("For how long the driver does not look again whether a table's index was replaced.")
    .timeConf(TimeUnit.MILLISECONDS)
    .createWithDefaultString("10s")

  private val RefreshOnWrite = SQLConf
    .buildConf(Prefix + "refresh.on.write")
    .doc("Whether writes through this session refresh the index of a table that has one.")
    .booleanConf
    .createWithDefault(false)

  private val History = SQLConf
    .buildConf(Prefix + "history")
    .doc("The directory (a URI) where the session notes which filters and joins came; advice on layouts reads it.")
    .stringConf
    .createOptional

  private val ObjectSize = SQLConf
    .buildConf(Prefix + "layout.object.size")
    .doc("How large the objects of a table are to be that is laid out as advised or written again.")
    .bytesConf(ByteUnit.BYTE)
    .checkValue(_ > 0, "an object has a size")
    .createWithDefaultString("32m")
}

/**
 * Totals of skipping in this process, for the summary of the application whose driver it is. Thread-safe.
 *
 * The metrics of a plan are more precise; these sums outlive plans.
 */
object SkippingCounters {

  private val scans, files, filesSkipped, bytes, bytesSkipped, selectNs = new LongAdder

  /**
   * Count a scan that ran and whose table has an index.
   *
   * @param files
   *   the number of files after partition pruning; they have `bytes` in all
   * @param selectNs
   *   the time of the index's answer
   */
  def scanned(files: Long, filesSkipped: Long, bytes: Long, bytesSkipped: Long, selectNs: Long): Unit = {
    scans.increment()
    this.files.add(files)
    this.filesSkipped.add(filesSkipped)
    this.bytes.add(bytes)
    this.bytesSkipped.add(bytesSkipped)
    this.selectNs.add(selectNs)
  }

  /** The totals by name, in the order of the summary; they only grow. */
  def now(): Seq[(String, Long)] = Seq(
    "scans" -> scans.sum,
    "files" -> files.sum,
    "files_skipped" -> filesSkipped.sum,
    "bytes" -> bytes.sum,
    "bytes_skipped" -> bytesSkipped.sum,
    "select_us" -> selectNs.sum / 1000
  )
}

package io.penstock.skipping

import java.util.concurrent.TimeUnit

import org.apache.spark.network.util.{ByteUnit, JavaUtils}
import org.apache.spark.sql.internal.SQLConf

/** The session's settings under `spark.penstock.skipping.`; each may be changed between two queries. */
class SkippingSettings(conf: SQLConf) {

  import SkippingSettings._

  /** Whether anything is skipped at all. */
  def enabled: Boolean = flag("enabled", default = true)

  /** Whether the keys of joins are used. */
  def dynamic: Boolean = enabled && flag("dynamic.enabled", default = true)

  /** Whether filters are followed through other joins of the same query. */
  def transitive: Boolean = dynamic && flag("transitive.enabled", default = true)

  /** More keys than this are compressed to so many intervals. */
  def maxKeys: Int = conf.getConfString(Prefix + "dynamic.max.keys", "10000").toInt

  /** A join's side whose broadcast cannot be reused is run a second time up to this estimated size; 0: never. */
  def secondRunBytes: Long = bytes("dynamic.second.run.max.bytes", "10m")

  /** A column in whose files a random key is found in more than this share is not worth skipping by. */
  def maxFilesPerKey: Double = conf.getConfString(Prefix + "dynamic.max.files.per.key", "0.5").toDouble

  /** Whether skipped files are read all the same, and the query fails if one of them would have contributed. */
  def verify: Boolean = flag("verify", default = false)

  /** For how long the driver does not look again whether a table's index was replaced. */
  def indexAgeMs: Long =
    JavaUtils.timeStringAs(conf.getConfString(Prefix + "index.max.age", "10s"), TimeUnit.MILLISECONDS)

  /** Whether writes through this session refresh the index of a table that has one. */
  def refreshOnWrite: Boolean = flag("refresh.on.write", default = false)

  /** Where the session notes which filters and joins came (a directory's URI), for advice on layouts. */
  def history: Option[String] = Option(conf.getConfString(Prefix + "history", "")).filter(_.nonEmpty)

  private def flag(name: String, default: Boolean): Boolean =
    conf.getConfString(Prefix + name, default.toString).toBoolean

  private def bytes(name: String, default: String): Long =
    JavaUtils.byteStringAs(conf.getConfString(Prefix + name, default), ByteUnit.BYTE)
}

object SkippingSettings {
  val Prefix = "spark.penstock.skipping."
}

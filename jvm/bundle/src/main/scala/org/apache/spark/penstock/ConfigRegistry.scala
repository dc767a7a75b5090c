package org.apache.spark.penstock

import scala.jdk.CollectionConverters._
import scala.util.{Failure, Try}

import org.apache.spark.SparkIllegalArgumentException
import org.apache.spark.internal.config.ConfigEntry
import org.apache.spark.sql.internal.SQLConf

/**
 * One setting as the code that reads it declares it.
 *
 * `kind` is `boolean`, `int`, `double`, `time`, `size`, `choice`, `string`, or `number` where a unit may or may not
 * follow. `unit` is what a bare number means: `ns`, `us`, `ms`, `s`, `min`; `b`, `k`, `m`.
 */
final case class Declared(
    key: String,
    kind: String,
    default: Option[String] = None,
    since: Option[String] = None,
    unit: Option[String] = None,
    choices: Seq[String] = Nil,
    deprecated: Option[String] = None
)

/** Spark's own register of settings. In Spark's package because the register is private to it. */
object ConfigRegistry {

  // Entries register themselves when the object that declares them is initialised, and nothing lists those objects.
  private val declaringObjects = Seq(
    "org.apache.spark.internal.config.package$",
    "org.apache.spark.internal.config.Deploy$",
    "org.apache.spark.internal.config.History$",
    "org.apache.spark.internal.config.Kryo$",
    "org.apache.spark.internal.config.Network$",
    "org.apache.spark.internal.config.Python$",
    "org.apache.spark.internal.config.R$",
    "org.apache.spark.internal.config.Status$",
    "org.apache.spark.internal.config.Streaming$",
    "org.apache.spark.internal.config.UI$",
    "org.apache.spark.internal.config.Worker$",
    "org.apache.spark.sql.internal.SQLConf$",
    "org.apache.spark.sql.internal.StaticSQLConf$",
    "io.penstock.skipping.model.SkippingSettings$"
  )

  // Modules that an application may bring along or a class path may leave out.
  private val optionalObjects = Seq(
    "org.apache.spark.streaming.StreamingConf$",
    "org.apache.spark.deploy.k8s.Config$",
    "org.apache.spark.sql.connect.config.Connect$"
  )

  private val Time = "time in ([A-Z]+)".r
  private val timeUnits =
    Map("NANOSECONDS" -> "ns", "MICROSECONDS" -> "us", "MILLISECONDS" -> "ms", "SECONDS" -> "s", "MINUTES" -> "min")
  private val Size = "bytes in ([A-Za-z]+)".r
  private val sizeUnits = Map("bytes" -> "b", "KiB" -> "k", "MiB" -> "m")

  def declared(): Seq[Declared] = {
    declaringObjects.foreach(Class.forName)
    optionalObjects.foreach(name => Try(Class.forName(name)))
    ConfigEntry.knownConfigs.values.asScala.toSeq.flatMap(entry => describe(entry, entry.key) +: alternatives(entry))
  }

  /**
   * What `org.apache.spark.sql.hive.HiveUtils` of Spark 4.1.2 declares: pyspark has that class, but the build has not,
   * since spark-hive of this version is in no repository it reads.
   */
  def hive(): Seq[Declared] = {
    val switches = Seq(
      "convertInsertingPartitionedTable",
      "convertInsertingUnpartitionedTable",
      "convertMetastoreAsNullable",
      "convertMetastoreCtas",
      "convertMetastoreInsertDir",
      "convertMetastoreOrc",
      "convertMetastoreParquet",
      "convertMetastoreParquet.mergeSchema",
      "thriftServer.async",
      "useDelegateForSymlinkTextInputFormat"
    )
    val texts = Seq("barrierPrefixes", "jars", "jars.path", "sharedPrefixes", "version").map(name => s"metastore.$name")
    switches.map(name => Declared(s"spark.sql.hive.$name", "boolean")) ++
      (texts :+ "version").map(name => Declared(s"spark.sql.hive.$name", "string"))
  }

  /** Settings that Spark refuses or ignores today, with what it says about them. */
  def removed(): Seq[Declared] =
    SQLConf.removedSQLConfigs.values.toSeq.map { config =>
      Declared(config.key, "string", deprecated = Some(s"removed in Spark ${config.version}: ${config.comment}"))
    }

  private def alternatives(entry: ConfigEntry[_]): Seq[Declared] =
    entry.alternatives.map(describe(entry, _).copy(deprecated = Some(s"use ${entry.key}")))

  private def describe(entry: ConfigEntry[_], key: String): Declared = {
    val declared = Declared(
      key,
      "string",
      Option(entry.defaultValueString).filterNot(_ == ConfigEntry.UNDEFINED),
      Option(entry.version).filter(_.nonEmpty),
      deprecated = SQLConf.deprecatedSQLConfigs.get(key).map(old => s"since Spark ${old.version}: ${old.comment}")
    )
    // An entry hides its type inside a function, but refuses nonsense in words that give it away.
    Try(entry.valueConverter("not a value")) match {
      case Failure(refusal: SparkIllegalArgumentException) =>
        val parameters = refusal.getMessageParameters
        val choices = Option(parameters.get("confOptions")).toSeq.flatMap(_.split(", ")).sorted
        if (choices.nonEmpty) declared.copy(kind = "choice", choices = choices)
        else Option(parameters.get("confType")).fold(declared)(typed(declared, _))
      case _ => declared
    }
  }

  private def typed(declared: Declared, refused: String): Declared =
    refused match {
      case "int" | "long" => declared.copy(kind = "int")
      case "boolean" | "double" => declared.copy(kind = refused)
      case Time(unit) => declared.copy(kind = "time", unit = timeUnits.get(unit))
      case Size(unit) => declared.copy(kind = "size", unit = sizeUnits.get(unit))
      case _ => declared
    }
}

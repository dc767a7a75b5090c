package io.penstock.skipping.fuzz

import io.penstock.skipping.SkippingSettings.Prefix

/** Settings of a query's session. */
object Settings {

  /** Those by which an answer may be another one, a failure among them. */
  private val Answers: Seq[(String, Seq[String])] = Seq(
    "spark.sql.ansi.enabled" -> Seq("true", "false"),
    "spark.sql.caseSensitive" -> Seq("false"),
    "spark.sql.session.timeZone" -> Seq("UTC", "UTC", "America/Los_Angeles", "Asia/Kathmandu"),
    // A sample is another one of other tasks; a task takes longer to start than to read these files.
    "spark.sql.files.minPartitionNum" -> mostly("1", "2")
  )

  /** Those that only change how it is come by: Spark's, and Penstock's. */
  private val Ways: Seq[(String, Seq[String])] = Seq(
    "spark.sql.adaptive.enabled" -> Seq("true", "false"),
    // Rarely: it takes longer to compile these queries than to run them.
    "spark.sql.codegen.wholeStage" -> Seq("false", "false", "false", "false", "false", "true"),
    "spark.sql.codegen.factoryMode" -> Seq("NO_CODEGEN", "NO_CODEGEN", "NO_CODEGEN", "NO_CODEGEN", "FALLBACK"),
    "spark.sql.autoBroadcastJoinThreshold" -> mostly("10485760", "-1"),
    // Without these two no keys come by.
    "spark.sql.optimizer.dynamicPartitionPruning.enabled" -> mostly("true", "false"),
    "spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly" -> Seq("true", "false"),
    "spark.sql.optimizer.runtime.bloomFilter.enabled" -> Seq("true", "false"),
    "spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold" -> Seq("0", "10737418240"),
    "spark.sql.parquet.enableVectorizedReader" -> Seq("true", "true", "false"),
    "spark.sql.parquet.filterPushdown" -> Seq("true", "true", "false"),
    "spark.sql.exchange.reuse" -> mostly("true", "false"),
    "spark.sql.shuffle.partitions" -> Seq("1", "2", "3"),
    Prefix + "dynamic.enabled" -> mostly("true", "false"),
    Prefix + "transitive.enabled" -> Seq("true", "true", "false"),
    Prefix + "dynamic.max.keys" -> Seq("10000", "10000", "1", "3", "8"),
    Prefix + "dynamic.second.run.max.bytes" -> Seq("10m", "10m", "0"),
    // Here it must be right also where it does not pay.
    Prefix + "dynamic.max.files.per.key" -> mostly("1.0", "0.5"),
    Prefix + "verify" -> mostly("false", "true")
  )

  private def mostly(value: String, rarely: String): Seq[String] = Seq.fill(5)(value) :+ rarely

  def of(dice: Dice): Map[String, String] = chosen(Answers ++ Ways, dice)

  /** Another way to the same answer. */
  def another(settings: Map[String, String], dice: Dice): Map[String, String] = settings ++ chosen(Ways, dice)

  private def chosen(choices: Seq[(String, Seq[String])], dice: Dice): Map[String, String] =
    choices.map { case (name, values) => name -> dice.oneOf(values) }.toMap

  /** Every name that may be set. */
  val names: Seq[String] = (Answers ++ Ways).map(_._1)
}

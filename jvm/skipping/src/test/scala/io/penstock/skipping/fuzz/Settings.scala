package io.penstock.skipping.fuzz

import io.penstock.skipping.SkippingSettings.Prefix

/** Settings of a query's session: Spark's that change its plans, and Penstock's. */
object Settings {

  private val Choices: Seq[(String, Seq[String])] = Seq(
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
    "spark.sql.ansi.enabled" -> Seq("true", "false"),
    "spark.sql.caseSensitive" -> Seq("false"),
    "spark.sql.session.timeZone" -> Seq("UTC", "UTC", "America/Los_Angeles", "Asia/Kathmandu"),
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

  def of(dice: Dice): Map[String, String] = Choices.map { case (name, values) => name -> dice.oneOf(values) }.toMap

  /** Every name that [[of]] may have set. */
  val names: Seq[String] = Choices.map(_._1)
}

package io.penstock.build

import java.io.File
import java.nio.file.{Files, Path, Paths}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{ObjectMapper, SerializationFeature}
import org.apache.spark.network.util.TransportConf
import org.apache.spark.penstock.{ConfigRegistry, Declared}

/**
 * Writes every setting that Spark and Hadoop know to a JSON file, for the check of a user's settings before launch.
 *
 * Where several sources name a key, the one that knows its type wins.
 */
object KnownSettings {

  private val SparkJar = raw".*[/\\]spark-[^/\\]*\.jar".r
  private val Key = raw"spark(?!\.test(ing)?\.)(\.[A-Za-z][A-Za-z0-9_-]*)+".r

  // TransportConf puts a module's name between `spark.` and these.
  private val networkModules = Seq("shuffle", "rpc")
  private val NetworkKey = raw"io\.[A-Za-z]+".r

  def main(arguments: Array[String]): Unit = write(Paths.get(arguments(0)))

  def write(target: Path): Unit = {
    val all =
      mentioned() ++ network() ++ HadoopSettings.declared() ++ OwnSettings.declared() ++ ConfigRegistry
        .removed() ++ ConfigRegistry
        .hive() ++ ConfigRegistry.declared()
    val json = new ObjectMapper()
      .enable(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS)
      .writerWithDefaultPrettyPrinter()
      .writeValueAsString(all.map(setting => setting.key -> record(setting)).toMap.toSeq.sortBy(_._1).map(_._2).asJava)
    Files.createDirectories(target.toAbsolutePath.getParent)
    Files.writeString(target, json + "\n")
  }

  /** Keys that Spark reads by their name alone. */
  private def mentioned(): Seq[Declared] =
    System
      .getProperty("java.class.path")
      .split(File.pathSeparator)
      .toSeq
      .collect { case jar @ SparkJar() => jar }
      .flatMap(StringConstants.ofJar)
      .collect { case key @ Key(_, _) => Declared(key, "string") }

  private def network(): Seq[Declared] = {
    val jar = classOf[TransportConf].getProtectionDomain.getCodeSource.getLocation.getPath
    for {
      module <- networkModules
      case option @ NetworkKey() <- StringConstants.ofJar(jar).toSeq
    } yield Declared(s"spark.$module.$option", "string")
  }

  private def record(setting: Declared): java.util.Map[String, Any] = {
    val fields = Seq(
      "key" -> Some(setting.key),
      "kind" -> Some(setting.kind),
      "default" -> setting.default,
      "since" -> setting.since,
      "unit" -> setting.unit,
      "choices" -> Option.when(setting.choices.nonEmpty)(setting.choices.asJava),
      "deprecated" -> setting.deprecated
    )
    fields.collect { case (name, Some(value)) => name -> (value: Any) }.toMap.asJava
  }
}

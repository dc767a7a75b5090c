package io.penstock.build

import java.lang.reflect.{Field, Modifier}
import java.time.Duration

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.s3a.Constants
import org.apache.hadoop.fs.s3a.audit.S3AAuditConstants
import org.apache.hadoop.fs.s3a.commit.CommitConstants
import org.apache.spark.penstock.Declared

/** Hadoop's settings: those its default files list, and those only S3A's constants name (half of S3A's). */
object HadoopSettings {

  private val Size = raw"\d+[KMGTPE]".r
  private val Time = raw"\d+(ns|us|ms|s|m|h|d)".r
  private val Number = raw"\d+".r

  def declared(): Seq[Declared] = {
    val listed = new Configuration().asScala.map(entry => entry.getKey -> entry.getValue.trim).toMap
    val fields = Seq(classOf[Constants], classOf[CommitConstants], classOf[S3AAuditConstants]).flatMap(constants)
    val byName = fields.map(field => field.getName -> field).toMap
    val named = fields.collect {
      case field if text(field).exists(_.startsWith("fs.s3a.")) => text(field).get -> field
    }.toMap
    (listed.keySet ++ named.keySet).toSeq.filterNot(_.endsWith(".")).map { key =>
      val default = named.get(key).flatMap(field => defaultOf(field, byName))
      val value = listed.get(key).filter(_.nonEmpty).orElse(default.map(written))
      Declared(
        key,
        kind(default, value),
        value,
        deprecated = named.get(key).filter(_.isAnnotationPresent(classOf[java.lang.Deprecated])).map(_ => "by S3A")
      )
    }
  }

  private def constants(source: Class[_]): Seq[Field] =
    source.getFields.toSeq.filter(field => Modifier.isStatic(field.getModifiers))

  private def text(field: Field): Option[String] =
    Option.when(field.getType == classOf[String])(field.get(null).asInstanceOf[String])

  /** A constant's value as it would be written in a setting. */
  private def written(field: Field): String =
    field.get(null) match {
      case duration: Duration => s"${duration.toMillis}ms"
      case value => value.toString
    }

  /** The constant with a key's default value, by S3A's habits of naming it. */
  private def defaultOf(key: Field, byName: Map[String, Field]): Option[Field] = {
    val name = key.getName
    Seq(s"DEFAULT_${name}_DURATION", s"DEFAULT_$name", s"${name}_DEFAULT").flatMap(byName.get).headOption
  }

  private def kind(default: Option[Field], value: Option[String]): String =
    default.map(_.getType) match {
      case Some(java.lang.Boolean.TYPE) => "boolean"
      case Some(duration) if duration == classOf[Duration] => "time"
      case _ =>
        value match {
          case Some("true" | "false") => "boolean"
          case Some(Size()) => "size"
          case Some(Time(_)) => "time"
          // Whether S3A reads a plain number as a count, a size or a time does not follow from its type.
          case Some(Number()) => "number"
          case _ => "string"
        }
    }
}

package io.penstock.application

import java.io.OutputStream
import java.nio.charset.StandardCharsets.UTF_8
import java.time.{Instant, ZoneId}
import java.util.Base64

import scala.collection.immutable.ListMap

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.module.scala.DefaultScalaModule
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.util.{DateTimeUtils, TimestampFormatter}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{Row, SparkSession}

/**
 * One file of JSON objects, one a line, in any Hadoop file system. An object store shows the file only once it is
 * closed, whole; a file system with real files shows each line as it is written.
 */
class JsonLines(out: OutputStream) extends AutoCloseable {

  /** Map entries appear in the order of the map: use a `ListMap` where people will read it. */
  def write(line: Map[String, Any]): Unit = writeText(JsonLines.text(line))

  /** Write a line that [[JsonLines.text]] has made. */
  def writeText(line: String): Unit = {
    out.write((line + "\n").getBytes(UTF_8))
    out.flush()
  }

  override def close(): Unit = out.close()
}

object JsonLines {
  private val mapper = new ObjectMapper().registerModule(DefaultScalaModule)

  def text(line: Map[String, Any]): String = mapper.writeValueAsString(line)

  /** Replaces what is at `uri`. */
  def create(uri: String, configuration: Configuration): JsonLines = {
    val path = new Path(uri)
    new JsonLines(path.getFileSystem(configuration).create(path, true))
  }
}

/**
 * Spark's values as JSON has them: numbers stay numbers where JSON's readers keep them exact, everything without a JSON
 * form (decimals, dates, bytes, not-a-number) becomes a string. The column's type beside it says how to read it.
 *
 * @param zone
 *   the session's time zone, in which Spark shows a point in time
 */
final class JsonValues(zone: ZoneId) {

  private val times = TimestampFormatter.getFractionFormatter(zone)

  def row(row: Row): Seq[Any] = row.toSeq.map(value)

  def value(any: Any): Any = any match {
    case null => null
    case truth: Boolean => truth
    case number @ (_: Byte | _: Short | _: Int | _: Long) => number
    case number: Double => if (number.isNaN || number.isInfinite) number.toString else number
    case number: Float => if (number.isNaN || number.isInfinite) number.toString else number
    case decimal: java.math.BigDecimal => decimal.toPlainString
    case text: String => text
    case bytes: Array[Byte] => Base64.getEncoder.encodeToString(bytes)
    // Its own text would be in the JVM's zone, which need not be the session's.
    case time: java.sql.Timestamp => moment(DateTimeUtils.fromJavaTimestamp(time))
    case time: Instant => moment(DateTimeUtils.instantToMicros(time))
    case struct: Row => JsonValues.keys(struct.schema.fieldNames.toSeq).zip(struct.toSeq.map(value)).to(ListMap)
    case map: scala.collection.Map[_, _] =>
      map.toSeq.map { case (key, of) => String.valueOf(value(key)) -> value(of) }.to(ListMap)
    case elements: scala.collection.Seq[_] => elements.map(value)
    case other => other.toString
  }

  /** As a cast to a string, and always with a fraction, as the other engines' results have it. */
  private def moment(micros: Long): String = {
    val text = times.format(micros)
    if (text.contains('.')) text else s"$text.0"
  }
}

object JsonValues {

  /** The values as the session shows them now: a statement may have changed its zone. */
  def of(spark: SparkSession): JsonValues =
    new JsonValues(DateTimeUtils.getZoneId(spark.conf.get("spark.sql.session.timeZone")))

  def columns(schema: StructType): Seq[Map[String, String]] =
    schema.fields.toSeq.map(field => ListMap("name" -> field.name, "type" -> field.dataType.simpleString))

  /**
   * The keys of a struct's fields. JSON's readers keep one value of a key, so a field whose name has occurred gets a
   * number, as in DuckDB: `a`, `a_1`. The column's type has the names.
   */
  private[application] def keys(names: Seq[String]): Seq[String] = {
    val taken = scala.collection.mutable.Set.empty[String]
    names.map { name =>
      val key =
        if (!taken(name)) name
        else Iterator.from(1).map(n => s"${name}_$n").find(key => !taken(key) && !names.contains(key)).get
      taken += key
      key
    }
  }
}

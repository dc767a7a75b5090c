package io.penstock.skipping.history

import java.util.Base64
import java.util.concurrent.TimeUnit

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import io.penstock.skipping.model.RangeSet

/**
 * A condition of queries on a column of a table: its value is in a set.
 *
 * @param byJoin
 *   true for keys of the other side of a join, which are known only at run time; false for literals of the query
 * @param keys
 *   the set, compressed to a few intervals; None where the keys of a join were not observed
 */
case class Condition(column: String, byJoin: Boolean, keys: Option[RangeSet])

/**
 * Scans of one table with the same conditions.
 *
 * @param table
 *   the root of the table's files, a URI without a slash at its end
 * @param files
 *   the number of files read, in all scans together
 * @param bytes
 *   the size of these files
 */
case class ScanNote(table: String, conditions: Seq[Condition], scans: Long, files: Long, bytes: Long) {

  /** The sum of notes with the same conditions. */
  def and(other: ScanNote): ScanNote =
    copy(scans = scans + other.scans, files = files + other.files, bytes = bytes + other.bytes)
}

/**
 * The format of notes, a JSON object for each application. Pure functions.
 * {{{
 * {"version": 1, "dropped": 0, "notes": [
 *   {"table": "s3a://lake/sales", "scans": 2, "files": 80, "bytes": 83886080, "conditions": [
 *     {"column": "day", "by_join": true, "numbers": [[18262, 18292]]},
 *     {"column": "shop", "by_join": false, "bytes": [["YQ==", null]]}]}]}
 * }}}
 * Intervals of numbers hold both their ends; those of bytes (Base64) do not hold their upper one, which may be missing.
 */
private[history] object NoteFile {

  private val Version = 1
  private val json = new ObjectMapper()

  /** Serialize notes; `dropped` is the number of scans that the bounded notes have no room for. */
  def write(notes: Iterable[ScanNote], dropped: Long): Array[Byte] = {
    val root = json.createObjectNode().put("version", Version).put("dropped", dropped)
    val array = root.putArray("notes")
    for (note <- notes)
      array.add(
        question(note).put("scans", note.scans).put("files", note.files).put("bytes", note.bytes)
      )
    json.writeValueAsBytes(root)
  }

  /** Parse notes. Throws an `IllegalArgumentException` where these are none, or of another version. */
  def read(content: Array[Byte]): Seq[ScanNote] = {
    val root =
      try json.readTree(content)
      catch { case e: java.io.IOException => throw new IllegalArgumentException("it is not JSON", e) }
    val version = root.path("version").asInt
    if (version != Version) throw new IllegalArgumentException(s"its version is $version, not $Version")
    elements(root.path("notes")).map { note =>
      ScanNote(
        note.path("table").asText,
        elements(note.path("conditions")).map(condition),
        note.path("scans").asLong,
        note.path("files").asLong,
        note.path("bytes").asLong
      )
    }
  }

  /** A text that is equal for notes with the same table and conditions. */
  def identity(note: ScanNote): String = question(note).toString

  /** A text that is equal for equal conditions. */
  def identity(condition: Condition): String = toJson(condition).toString

  private def question(note: ScanNote): ObjectNode = {
    val node = json.createObjectNode().put("table", note.table)
    val array = node.putArray("conditions")
    note.conditions.foreach(condition => array.add(toJson(condition)))
    node
  }

  private def toJson(condition: Condition): ObjectNode = {
    val node = json.createObjectNode().put("column", condition.column).put("by_join", condition.byJoin)
    condition.keys.foreach {
      case numbers: RangeSet.Integral =>
        val intervals = node.putArray("numbers")
        for (i <- 0 until numbers.size) intervals.addArray().add(numbers.lows(i)).add(numbers.highs(i))
      case bytes: RangeSet.Bytes =>
        val intervals = node.putArray("bytes")
        for (i <- 0 until bytes.size) end(end(intervals.addArray(), bytes.lows(i)), bytes.highs(i))
    }
    node
  }

  private def end(interval: ArrayNode, bytes: Array[Byte]): ArrayNode =
    if (bytes == null) interval.addNull() else interval.add(Base64.getEncoder.encodeToString(bytes))

  private def condition(node: JsonNode): Condition = {
    def keys(name: String, none: RangeSet)(interval: (JsonNode, JsonNode) => RangeSet): Option[RangeSet] =
      Option(node.get(name))
        .map(elements(_).map(ends => interval(ends.path(0), ends.path(1))).foldLeft(none)(_ union _))
    val numbers =
      keys("numbers", RangeSet.Integral.Nothing)((low, high) => RangeSet.Integral.interval(low.asLong, high.asLong))
    val bytes =
      keys("bytes", RangeSet.Bytes.Nothing)((low, high) => RangeSet.Bytes.interval(decoded(low), decoded(high)))
    Condition(node.path("column").asText, node.path("by_join").asBoolean, numbers.orElse(bytes))
  }

  private def decoded(end: JsonNode): Array[Byte] = if (end.isNull) null else Base64.getDecoder.decode(end.asText)

  private def elements(array: JsonNode): Seq[JsonNode] = array.elements().asScala.toSeq
}

/**
 * The notes of one application, with counts for repeated conditions. It writes them periodically and at the end: a
 * killed driver loses those since the last time. Thread-safe; exceptions of `write` pass through.
 *
 * @param write
 *   writes the content in place of the former one
 */
private[history] class NoteBook(write: Array[Byte] => Unit, now: () => Long = () => System.nanoTime) {

  import NoteBook._

  private val notes = mutable.LinkedHashMap.empty[String, ScanNote]
  private var dropped = 0L
  private var changed = false
  private var written = Option.empty[Long]

  def add(scans: Seq[ScanNote]): Unit = synchronized {
    for (scan <- scans) {
      val question = NoteFile.identity(scan)
      notes(question) = notes.get(question).fold(scan)(_.and(scan))
      if (notes.size > MostQuestions) {
        val (least, note) = notes.minBy(_._2.bytes)
        notes -= least
        dropped += note.scans
      }
      changed = true
    }
    if (written.forall(now() - _ >= Pause)) flush()
  }

  def flush(): Unit = synchronized {
    if (changed) {
      // Also after a failure, so that the very next query does not try again.
      written = Some(now())
      write(NoteFile.write(notes.values, dropped))
      changed = false
    }
  }
}

private[history] object NoteBook {

  /** The most different conditions of an application; those that read most stay. */
  val MostQuestions = 500

  private val Pause = TimeUnit.SECONDS.toNanos(10)
}

package io.penstock.fs.commit

import java.io.IOException
import java.net.InetAddress
import java.util.Date

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.json.JsonMapper
import com.fasterxml.jackson.databind.{DeserializationFeature, ObjectMapper}
import com.fasterxml.jackson.module.scala.DefaultScalaModule
import org.apache.commons.codec.binary.Hex
import org.apache.commons.codec.digest.DigestUtils
import org.apache.hadoop.fs.Path
import org.apache.hadoop.fs.s3a.S3AFileSystem
import org.apache.hadoop.fs.s3a.commit.CommitConstants
import org.apache.hadoop.fs.s3a.commit.files.SuccessData

import io.penstock.fs.store.EntityTag

/** An object, or with a key that ends in a slash (or is empty) all objects below it. */
final private[commit] case class Location(bucket: String, key: String) {
  override def toString: String = s"s3a://$bucket/$key"
}

private[commit] object Location {

  /** Of a file, by its qualified path. */
  def of(path: Path): Location = Location(path.toUri.getHost, path.toUri.getPath.stripPrefix("/"))

  /** Everything below a path. */
  def directory(fs: S3AFileSystem, path: Path): Location = {
    val at = of(fs.makeQualified(path))
    at.copy(key = if (at.key.isEmpty) "" else at.key.stripSuffix("/") + "/")
  }
}

/** One uploaded part; its checksum, where S3A computes one, is asked for again when the upload is completed. */
final private[commit] case class Part(etag: String, checksumAlgorithm: Option[String], checksum: Option[String])

/** A file that a task has uploaded and nobody sees: completing the upload makes it appear, whole, at `key`. */
final private[commit] case class Upload(bucket: String, key: String, id: String, parts: Vector[Part], bytes: Long) {
  def location: Location = Location(bucket, key)

  /**
   * Whether an object with this entity tag is the one that completing this upload makes. None where the tags of the
   * store are not made of MD5 sums, as those of objects that are encrypted with keys of KMS are not.
   */
  def makes(tag: String): Option[Boolean] = {
    val sums = parts.flatMap(part => EntityTag.strong(part.etag)).filter(Upload.Sum.matches)
    val whole = s"${DigestUtils.md5Hex(Hex.decodeHex(sums.mkString))}-${sums.size}"
    if (sums.isEmpty || sums.size != parts.size) None
    // Some stores keep the tag of an only part.
    else if (tag == whole || sums == Vector(tag)) Some(true)
    else Option.when(Upload.Whole.matches(tag))(false)
  }
}

private object Upload {
  private val Sum = "[0-9a-f]{32}".r
  private val Whole = "[0-9a-f]{32}-[0-9]+".r
}

/**
 * The decision of one job, in one object: which uploads become the table's files, and exactly which objects they
 * replace. Once it is in the table's [[CommitLog]] the job has happened, whoever carries it out.
 *
 * @param job
 *   Spark's unique id of the write, part of the name of each new file
 * @param marker
 *   where `_SUCCESS` belongs
 * @param decided
 *   milliseconds since 1970, by the driver's clock
 */
final private[commit] case class CommitRecord(
    version: Int,
    job: String,
    table: Location,
    uploads: Vector[Upload],
    replaced: Vector[Location],
    marker: Option[Location],
    decided: Long
) {

  /** Everywhere an attempt of this job may have uploaded to. */
  def places: Vector[Location] = CommitRecord.places(table, uploads.map(_.location))
}

private[commit] object CommitRecord {

  val Version = 1

  /** The table, and the directories of files that lie elsewhere (partitions with a location of their own). */
  def places(table: Location, files: Iterable[Location]): Vector[Location] =
    table +: files.iterator
      .filterNot(file => file.bucket == table.bucket && file.key.startsWith(table.key))
      .map(file => Location(file.bucket, parent(file.key)))
      .distinct
      .toVector

  def parent(key: String): String = key.substring(0, key.lastIndexOf('/') + 1)

  private[commit] val json: ObjectMapper = JsonMapper
    .builder()
    .addModule(DefaultScalaModule)
    .configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false)
    .build()

  def write(record: CommitRecord): Array[Byte] = json.writeValueAsBytes(record)

  /** Throws an `IOException` where this is no record, or one of a later version. */
  def read(content: Array[Byte], from: Location): CommitRecord = {
    val record =
      try json.readValue(content, classOf[CommitRecord])
      catch { case NonFatal(e) => throw new IOException(s"$from is not a commit record of Penstock", e) }
    if (record.version > Version)
      throw new IOException(
        s"$from was written by a later version of Penstock (${record.version} > $Version): " +
          "finish that job's commit with the version that wrote it, by penstock lake sweep"
      )
    record
  }
}

/** Which of the objects below what a job replaces are the old data. Pure: it is given what the store lists. */
private[fs] object Replacing {

  /** The partitions a job has written files to: the directories of its files. */
  def partitions(uploads: Iterable[Upload]): Vector[Location] =
    uploads.iterator.map(upload => Location(upload.bucket, CommitRecord.parent(upload.key))).distinct.toVector

  /** Without those that lie within another. */
  def outermost(scopes: Iterable[Location]): Vector[Location] = {
    val distinct = scopes.toVector.distinct
    distinct.filterNot(inner =>
      distinct.exists(outer => outer != inner && outer.bucket == inner.bucket && inner.key.startsWith(outer.key))
    )
  }

  /**
   * All but the job's own files, the table's directory marker (an empty table is still there), the marker the job is
   * about to write anyway, what running jobs keep below the table (their journals and unfinished output), and its
   * skipping index: its entries are of no use for new files, but which columns it covers is its owner's choice.
   */
  def replaced(
      listed: Iterator[Location],
      table: Location,
      uploads: Iterable[Upload],
      marker: Option[Location]
  ): Vector[Location] = {
    val kept = uploads.iterator.map(_.location).toSet ++ marker + table
    listed.filterNot(old => kept(old) || isWorkingState(old.key)).toVector
  }

  private def isWorkingState(key: String): Boolean =
    isBelow(key, CommitLog.Directory) || isBelow(key, SkippingIndex) || key.contains("__magic_job-")

  private def isBelow(key: String, directory: String): Boolean =
    key.contains("/" + directory) || key.startsWith(directory)

  /** Of `io.penstock.skipping`. */
  private[fs] val SkippingIndex = "_skipindex/"
}

/** `_SUCCESS` in the form of S3A's own committers, which tools read. */
private[commit] object SuccessMarker {

  val Committer = "penstock"

  def content(job: String, uploads: Vector[Upload]): Array[Byte] = {
    val now = new Date
    val data = new SuccessData
    data.setCommitter(Committer)
    data.setJobId(job)
    data.setTimestamp(now.getTime)
    data.setDate(now.toString)
    data.setHostname(InetAddress.getLocalHost.getHostName)
    data.setDescription(s"${uploads.size} files")
    data.setFilenames(
      uploads.iterator.take(CommitConstants.SUCCESS_MARKER_FILE_LIMIT).map("/" + _.key).toList.asJava
    )
    data.setSuccess(true)
    data.toBytes(SuccessData.serializer())
  }
}

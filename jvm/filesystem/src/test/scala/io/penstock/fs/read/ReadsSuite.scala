package io.penstock.fs.read

import java.net.{InetSocketAddress, URI}
import java.nio.file.{Files, Path => FilePath}

import scala.util.Random

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FSDataInputStream, FileStatus, FileSystem, Path}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.{BeforeAndAfterAll, BeforeAndAfterEach}

import io.penstock.faults.FaultyGateway
import io.penstock.fs.cache.CacheSettings
import io.penstock.fs.testing.{Store, Trees}

/** A store behind a gateway that records and misbehaves, and for each test an empty cache of small pages. */
abstract private[read] class ReadsSuite extends AnyFunSuite with BeforeAndAfterAll with BeforeAndAfterEach {

  protected val PageSize: Int = 64 * 1024

  protected lazy val bucket: Store.Bucket = Store.newBucket()
  protected lazy val gateway = new FaultyGateway(new InetSocketAddress(Store.endpoint.getHost, Store.endpoint.getPort))

  protected var tiers: FilePath = _
  private var open = Seq.empty[FileSystem]
  private var object_ = 0

  override def beforeEach(): Unit = {
    super.beforeEach()
    tiers = Files.createTempDirectory("penstock-reads-")
    gateway.heal()
    gateway.clear()
  }

  override def afterEach(): Unit = {
    open.foreach(_.close())
    open = Nil
    Trees.delete(tiers)
    super.afterEach()
  }

  override def afterAll(): Unit = {
    gateway.close()
    super.afterAll()
  }

  protected def settings: Map[String, String] = Map.empty

  /** S3A with the page cache, through the gateway. */
  protected def conf(extra: (String, String)*): Configuration = {
    val conf = Store.conf(URI.create(gateway.endpoint))
    (ReadsSuite.cached(tiers, PageSize) ++ settings ++ extra).foreach { case (name, value) => conf.set(name, value) }
    conf
  }

  /** Another file system on the same cache each time, as each application has. */
  protected def fileSystem(extra: (String, String)*): FileSystem = {
    val fs = Store.fileSystem(bucket, conf(extra: _*))
    open :+= fs
    fs
  }

  /** A new object of random bytes. */
  protected def put(length: Int): (Path, Array[Byte]) = {
    object_ += 1
    val data = ReadsSuite.bytes(length, object_)
    val key = s"object-$object_"
    bucket.put(key, data)
    (bucket.path(key), data)
  }

  /** Objects of [[AgedPages]] pages that were made so long ago that a version seen of them now is not racy. */
  private lazy val aged = {
    val objects = Iterator.fill(24)(put(AgedPages * PageSize)).toVector
    Thread.sleep(2100)
    objects.iterator
  }

  protected val AgedPages = 12

  protected def nextAged(): (Path, Array[Byte]) = aged.next()

  /** Opens as Spark's tasks do: they know length and modification time. */
  protected def opened(fs: FileSystem, status: FileStatus): FSDataInputStream =
    fs.openFile(status.getPath).withFileStatus(ReadsSuite.plain(status)).build().get()

  /** The pages that each GET since the last `clear` asked for, in the order of arrival. */
  protected def pagesFetched: Vector[Range] =
    ranges.filter(_ != ReadsSuite.Confirmation).map { case (from, to) => from.toInt / PageSize to to.toInt / PageSize }

  /** How often the store was asked which version is current. */
  protected def confirmations: Int = ranges.count(_ == ReadsSuite.Confirmation)

  protected def ranges: Vector[(Long, Long)] =
    gateway.requests.filter(_.method == "GET").flatMap(_.range).collect { case ReadsSuite.Bytes(from, to) =>
      (from.toLong, to.toLong)
    }

  /** The files of pages, on all tiers. */
  protected def pageFiles: Vector[FilePath] = Trees.files(tiers).filter(_.toString.contains("/pages/"))

  protected def readAll(in: FSDataInputStream): Array[Byte] =
    try in.readAllBytes()
    finally in.close()
}

private[read] object ReadsSuite {

  private val Confirmation = (0L, 0L)

  val Bytes = "bytes=(\\d+)-(\\d+)".r

  def cached(tiers: FilePath, pageSize: Int): Map[String, String] = Map(
    "fs.s3a.input.stream.type" -> "custom",
    "fs.s3a.input.stream.custom.factory" -> classOf[PageStreamFactory].getName,
    CacheSettings.PageSize -> pageSize.toString,
    CacheSettings.Admission -> "always",
    CacheSettings.ReadAhead -> (8 * pageSize).toString,
    CacheSettings.MemoryDirectory -> tiers.resolve("memory").toString,
    CacheSettings.MemorySize -> "16M",
    CacheSettings.DiskDirectory -> tiers.resolve("disk").toString,
    CacheSettings.DiskSize -> "64M"
  )

  def bytes(length: Int, seed: Long): Array[Byte] = {
    val data = new Array[Byte](length)
    new Random(seed).nextBytes(data)
    data
  }

  /** The status without what only S3A knows. */
  def plain(status: FileStatus): FileStatus =
    new FileStatus(status.getLen, false, 1, status.getBlockSize, status.getModificationTime, status.getPath)
}

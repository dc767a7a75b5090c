package io.penstock.skipping.index

import java.net.URI
import java.nio.file.attribute.FileTime
import java.nio.file.{Files, Path => LocalPath, StandardCopyOption}

import org.apache.commons.codec.digest.DigestUtils
import org.apache.hadoop.fs._
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.PlainLocalFileSystem

/** Files that somebody overwrites, under the same name and of the same length, while they are indexed. */
class ReplacedFilesTest extends AnyFunSuite with IndexedFiles {

  import ReplacedFilesTest._

  override protected def settings: Map[String, String] = Map("spark.hadoop.fs.objects.impl" -> classOf[Objects].getName)

  private val LongAgo = FileTime.fromMillis(1000000000000L)

  override protected def at(name: String): String = s"objects:${directory.resolve(name)}"

  private def data(path: String): LocalPath =
    files(path).find(file => file.getFileName.toString.startsWith("part-") && !file.toString.contains("_skipindex")).get

  /** A table of one file, and another version of that file: as long, and with other values. */
  private def versions(name: String): (String, LocalPath) = {
    def one(name: String, from: Long) =
      data(write(name, spark.range(from, from + 100, 1, 1).selectExpr("id")))
    val present = one(name, 1000)
    val other = one(s"$name-other", 5000)
    assert(Files.size(present) == Files.size(other))
    Seq(present, other).foreach(Files.setLastModifiedTime(_, LongAgo))
    (at(name), other)
  }

  private def minima(path: String): Seq[Long] =
    entries(path).flatMap(_.columns("id").minimum).collect { case Value.Integral(number) => number }

  test("what is read of a file that was replaced since it was listed is not recorded under its old name and time") {
    val (path, other) = versions("listed")
    // Its schema is read before it is listed.
    val known = table(path)
    Objects.onOpen = Some(file => if (file.endsWith(data(path).getFileName.toString)) replace(data(path), other))
    val change =
      try IndexMaintenance.build(spark, known, Some(Seq("id")))
      finally Objects.onOpen = None
    assert(change.listed == 1 && change.read == 0)
    assert(refresh(path).read == 1)
    assert(minima(path) == Seq(5000))
  }

  private def replace(file: LocalPath, other: LocalPath): Unit = {
    Files.copy(other, file, StandardCopyOption.REPLACE_EXISTING)
    // Within the second, as far as the store tells.
    Files.setLastModifiedTime(file, LongAgo): Unit
  }

  test(
    "a file of this second is left to the next refresh, also by a driver whose clock is an hour ahead of the store's"
  ) {
    val (path, other) = versions("ahead")
    build(path, Seq("id"))
    def refreshedAhead() = new IndexWriter(
      spark,
      table(path).root,
      now = () => System.currentTimeMillis + 3600000,
      sleep = _ => fail("there is nothing to wait for by this clock")
    ).refresh().get
    Files.setLastModifiedTime(data(path), FileTime.fromMillis(System.currentTimeMillis))
    val change = refreshedAhead()
    assert(change.unsettled == 1 && change.read == 0)
    assert(files(path).forall(!_.getFileName.toString.contains("clock")), "the question for the time leaves nothing")
    val written = Files.getLastModifiedTime(data(path))
    Files.copy(other, data(path), StandardCopyOption.REPLACE_EXISTING)
    Files.setLastModifiedTime(data(path), FileTime.fromMillis(written.toMillis - 10000))
    assert(refreshedAhead().read == 1)
    assert(minima(path).contains(5000L))
  }
}

private object ReplacedFilesTest {

  /** A store of objects on the local disk: entity tags, and times in whole seconds. */
  class Objects extends PlainLocalFileSystem {
    override def getUri: URI = URI.create("objects:///")
    override def getScheme: String = "objects"

    override def hasPathCapability(path: Path, capability: String): Boolean =
      capability == CommonPathCapabilities.ABORTABLE_STREAM || super.hasPathCapability(path, capability)

    override def open(file: Path, bufferSize: Int): FSDataInputStream = {
      Objects.onOpen.foreach(_(file.getName))
      super.open(file, bufferSize)
    }

    override def getFileStatus(path: Path): FileStatus = tagged(super.getFileStatus(path))

    override def listStatus(path: Path): Array[FileStatus] = super.listStatus(path).map(tagged)

    override protected def listLocatedStatus(path: Path, filter: PathFilter): RemoteIterator[LocatedFileStatus] = {
      val found = listStatus(path).iterator.filter(status => filter.accept(status.getPath)).map {
        case tagged: Tagged => new TaggedAndLocated(tagged)
        case other => new LocatedFileStatus(other, null)
      }
      new RemoteIterator[LocatedFileStatus] {
        override def hasNext: Boolean = found.hasNext
        override def next(): LocatedFileStatus = found.next()
      }
    }

    private def tagged(status: FileStatus): FileStatus =
      if (status.isDirectory) status
      else {
        val content = Files.readAllBytes(pathToFile(status.getPath).toPath)
        new Tagged(status, DigestUtils.md5Hex(content))
      }
  }

  object Objects {
    @volatile var onOpen: Option[String => Unit] = None
  }

  private def wholeSeconds(ms: Long) = ms / 1000 * 1000

  class Tagged(of: FileStatus, etag: String)
      extends FileStatus(of.getLen, false, 1, of.getBlockSize, wholeSeconds(of.getModificationTime), of.getPath)
      with EtagSource {
    override def getEtag: String = s""""$etag""""
  }

  private class TaggedAndLocated(of: Tagged) extends LocatedFileStatus(of, null) with EtagSource {
    override def getEtag: String = of.getEtag
  }
}

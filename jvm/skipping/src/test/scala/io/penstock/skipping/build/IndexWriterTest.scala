package io.penstock.skipping.build

import java.net.URI
import java.nio.file.attribute.FileTime
import java.nio.file.{Files, Path => LocalPath, StandardCopyOption}

import org.apache.commons.codec.digest.DigestUtils
import org.apache.hadoop.fs._
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.PlainLocalFileSystem
import io.penstock.skipping.index.{IndexStore, IndexedFiles, OpenedFiles}
import io.penstock.skipping.model.Value

class IndexWriterTest extends AnyFunSuite with IndexedFiles {

  override protected def settings: Map[String, String] = OpenedFiles.settings

  private def numbers(from: Long, files: Int) = spark.range(from, from + 100L * files, 1, files).toDF("id")

  private def append(path: String, from: Long, files: Int): Unit =
    numbers(from, files).write.mode("append").parquet(path)

  private def data(path: String): Seq[LocalPath] =
    files(path).filter(file => file.getFileName.toString.endsWith(".parquet") && !file.toString.contains("_skipindex"))

  private def isData(name: String): Boolean = name.endsWith(".parquet") && name.startsWith("part-0000")

  private def indexed(name: String): String = {
    val path = write(name, numbers(0, 3))
    build(path, Seq("id"))
    path
  }

  test("a refresh with nothing changed opens no file of the table and writes nothing") {
    val path = write("unchanged", numbers(0, 3))
    val (built, read) = OpenedFiles.during(build(path, Seq("id")))
    assert(built.read == 3)
    assert(data(path).map(_.getFileName.toString).toSet.subsetOf(read.toSet))
    val before = files(path).map(file => file -> Files.getLastModifiedTime(file))
    val root = table(path).root
    val (refreshed, opened) = OpenedFiles.during(new IndexWriter(spark, root).refresh().get)
    assert(refreshed == Change(listed = 3, read = 0, obsolete = 0, unreadable = Seq.empty, unsettled = 0))
    assert(opened.contains(IndexStore.ManifestName))
    assert(!opened.exists(isData))
    assert(files(path).map(file => file -> Files.getLastModifiedTime(file)) == before)
  }

  test("a refresh reads the new files only") {
    val path = indexed("appended")
    val known = data(path)
    append(path, 300, 2)
    val root = table(path).root
    val (change, opened) = OpenedFiles.during(new IndexWriter(spark, root).refresh().get)
    assert(change.read == 2)
    assert(opened.filter(isData).toSet == data(path).diff(known).map(_.getFileName.toString).toSet)
  }

  test("a file that is replaced under its name is read anew, one that is deleted is forgotten") {
    val path = indexed("replaced")
    val first = data(path).head
    Files.setLastModifiedTime(first, FileTime.fromMillis(1000))
    Files.delete(data(path).last)
    val change = refresh(path)
    assert(change.read == 1 && change.obsolete == 2)
    val index = found(path).get
    assert(index.find("", first.getFileName.toString, Files.size(first), 1000) >= 0)
  }

  /**
   * A refresh during which something happens when it has listed the table, and waits for its youngest file to settle.
   */
  private def refreshing(path: String)(meanwhile: => Unit): Option[Change] = {
    var waited = false
    new IndexWriter(
      spark,
      table(path).root,
      now = () => if (waited) System.currentTimeMillis else data(path).map(Files.getLastModifiedTime(_).toMillis).max,
      sleep = { ms =>
        Thread.sleep(ms)
        if (!waited) {
          waited = true
          meanwhile
        }
      }
    ).refresh()
  }

  test("of two refreshers at once, neither takes away what the other has published") {
    val path = indexed("concurrent")
    append(path, 300, 1)
    var inner = Option.empty[Change]
    val outer = refreshing(path) {
      append(path, 400, 1)
      inner = Some(refresh(path))
    }
    assert(outer.map(_.read).contains(1L))
    assert(inner.map(_.read).contains(2L))
    assert(refresh(path).read == 0)
  }

  test("an index that is dropped during a refresh stays dropped") {
    val path = indexed("dropped")
    append(path, 300, 1)
    refreshing(path)(assert(IndexMaintenance.drop(spark, table(path))))
    assert(found(path).isEmpty)
    assert(IndexMaintenance.refresh(spark, table(path)).isEmpty)
  }

  /** A refresh when the youngest file is so old by the refresher's clock, whose sleeps end a millisecond early. */
  private def refreshed(path: String, youngestMs: Long): Change = {
    var now = data(path).map(Files.getLastModifiedTime(_).toMillis).max + youngestMs
    new IndexWriter(spark, table(path).root, now = () => now, sleep = ms => now += (ms - 1).max(1)).refresh().get
  }

  test("no file is left out because a sleep ended a moment early") {
    val path = indexed("early")
    append(path, 300, 1)
    val change = refreshed(path, youngestMs = 0)
    assert(change.unsettled == 0 && change.read == 1)
  }

  test("no file is left out because the store's clock is a little ahead") {
    val path = indexed("ahead")
    append(path, 300, 1)
    val change = refreshed(path, youngestMs = -40)
    assert(change.unsettled == 0 && change.read == 1)
  }

  test("a file from the future is not believed: it may be overwritten in the same second") {
    val path = indexed("future")
    append(path, 300, 1)
    data(path).foreach(Files.setLastModifiedTime(_, FileTime.fromMillis(System.currentTimeMillis + 3600000)))
    val change = refresh(path)
    assert(change.unsettled == 4 && change.read == 0)
  }

  test("a file that is no Parquet is reported, and the others are indexed") {
    val path = write("foreign", numbers(0, 2))
    val known = table(path)
    Files.writeString(LocalPath.of(new Path(path).toUri.getPath).resolve("notes.parquet"), "no Parquet at all")
    val change = IndexMaintenance.build(spark, known, Some(Seq("id")))
    assert(change.read == 2)
    assert(change.unreadable.map(file => new Path(file.path).getName) == Seq("notes.parquet"))
  }

  test("many small refreshes do not make an index of many small parts") {
    val path = indexed("compacted")
    // Parts of a refresh each, without writing so many tables.
    val columns = store(path).read().get.plan.map(_.column)
    val more = Vector.fill(40)(store(path).write(entries(path).iterator, columns).get)
    val manifest = store(path).read().get
    store(path).replace(manifest.copy(id = "many", parts = manifest.parts ++ more))
    refresh(path)
    assert(store(path).read().get.parts.size == 1)
    assert(found(path).get.files == 3)
    assert(refresh(path).read == 0)
  }

  test("a write ends with the refresh of its table's index where that is asked for, an overwrite with a new one") {
    val path = indexed("written")
    append(path, 300, 1)
    assert(found(path).exists(_.files == 3))
    spark.conf.set("spark.penstock.skipping.refresh.on.write", "true")
    try {
      append(path, 400, 1)
      assert(found(path).exists(_.files == 5))
      numbers(0, 2).write.mode("overwrite").parquet(path)
    } finally spark.conf.unset("spark.penstock.skipping.refresh.on.write")
    val index = found(path).get
    assert(index.files == 2 && index.columns.map(_.name) == Seq("id"))
    assert(refresh(path).read == 0)
  }
}

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

package io.penstock.skipping.index

import java.nio.file.attribute.FileTime
import java.nio.file.{Files, Path => LocalPath}

import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

class RefreshTest extends AnyFunSuite with IndexedFiles {

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

  test("a file that is no Parquet is told of, and the others are indexed") {
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

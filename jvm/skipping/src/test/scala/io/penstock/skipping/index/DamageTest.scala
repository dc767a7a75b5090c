package io.penstock.skipping.index

import java.nio.file.{Files, Path => LocalPath, StandardCopyOption}

import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.filter.FileFilter

class DamageTest extends AnyFunSuite with IndexedFiles {

  private def indexed(name: String): String = {
    val path = write(name, spark.range(0, 100, 1, 2).toDF("id"))
    build(path, Seq("id"))
    assert(found(path).isDefined)
    IndexCatalog.forget(table(path).root)
    path
  }

  private def file(path: String, prefix: String): LocalPath =
    files(path).find(file => file.getParent.endsWith("_skipindex") && file.getFileName.toString.startsWith(prefix)).get

  /** As on a store that keeps no checksums beside its files: what is damaged is found out all the same. */
  private def withoutChecksum(file: LocalPath): Unit = {
    Files.deleteIfExists(file.resolveSibling(s".${file.getFileName}.crc"))
    ()
  }

  private def edit(path: String)(change: String => String): Unit = {
    val manifest = file(path, IndexStore.ManifestName)
    Files.writeString(manifest, change(Files.readString(manifest)))
    withoutChecksum(manifest)
  }

  private def cut(file: LocalPath): Unit = {
    val whole = Files.readAllBytes(file)
    Files.write(file, whole.take(whole.length / 2))
    withoutChecksum(file)
  }

  private def ignored(path: String): IndexDamage = {
    // That its parts cannot be read is found out when something is asked that is in them.
    for (index <- found(path)) assert(index.column("id").isEmpty && index.select(FileFilter.Nothing).cardinality == 2)
    assert(found(path).isEmpty)
    intercept[IndexDamage](IndexMaintenance.show(spark, table(path)))
  }

  test("an index of a later version is left alone, and building makes one of ours") {
    val path = indexed("later")
    edit(path)(_.replace(""""format" : 2""", """"format" : 3, "columns" : "in another form""""))
    assert(ignored(path).getMessage.contains("later version"))
    intercept[IndexDamage](refresh(path))
    build(path, Seq("id"))
    assert(found(path).isDefined)
  }

  test("an index of the first format is not gone by: its value lists may be another file's") {
    val path = indexed("first")
    edit(path)(_.replace(""""format" : 2""", """"format" : 1"""))
    assert(ignored(path).getMessage.contains("values of another file"))
    build(path, Seq("id"))
    assert(found(path).isDefined)
  }

  test("a manifest that was cut short is no index") {
    val path = indexed("cut")
    cut(file(path, IndexStore.ManifestName))
    assert(ignored(path).getMessage.contains("no manifest that can be read"))
  }

  test("an index that was copied from another table is no index") {
    val path = indexed("mine")
    val other = indexed("other")
    Files.copy(
      file(other, IndexStore.ManifestName),
      file(path, IndexStore.ManifestName),
      StandardCopyOption.REPLACE_EXISTING
    )
    withoutChecksum(file(path, IndexStore.ManifestName))
    assert(ignored(path).getMessage.contains("another table"))
  }

  test("a part that was cut short makes the index unusable until its refresh") {
    val path = indexed("part-cut")
    cut(file(path, IndexStore.PartPrefix))
    assert(ignored(path).getMessage.contains("bytes instead of"))
    assert(refresh(path).read == 2)
    assert(found(path).exists(_.files == 2))
  }

  test("a part that is missing makes the index unusable until its refresh") {
    val path = indexed("part-missing")
    Files.delete(file(path, IndexStore.PartPrefix))
    assert(ignored(path).getMessage.contains("cannot be read"))
    assert(refresh(path).read == 2)
    assert(found(path).exists(_.files == 2))
  }
}

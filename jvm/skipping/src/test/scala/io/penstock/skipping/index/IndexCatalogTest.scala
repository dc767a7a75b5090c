package io.penstock.skipping.index

import java.nio.file.{Files, Path => LocalPath, StandardCopyOption}

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.SpanSugar.convertIntToGrainOfTime

import io.penstock.skipping.build.{IndexMaintenance, IndexedTable}
import io.penstock.skipping.model.{FileFilter, RangeSet}

/** From a built index to the one that a scan is given. */
class IndexCatalogTest extends AnyFunSuite with IndexedFiles with Eventually {

  override protected def settings: Map[String, String] = OpenedFiles.settings

  private def partitioned(name: String): String = {
    spark
      .range(0, 1000, 1, 4)
      .selectExpr(
        "id",
        "cast(id * 7919 % 1000 AS int) AS scattered",
        "concat('name ', id % 3) AS name",
        "id div 500 AS half"
      )
      .write
      .partitionBy("half")
      .parquet(at(name))
    at(name)
  }

  test("the columns worth it are chosen, and a scan finds the files that hold a value") {
    val path = partitioned("chosen")
    IndexMaintenance.build(spark, table(path))
    val index = found(path).get
    assert(index.files == 4)
    assert(index.columns.map(_.name) == Seq("id"))
    assert(index.select(FileFilter.Among("id", RangeSet.Integral.points(Array(10L)))).cardinality == 1)
    val described = IndexMaintenance.show(spark, table(path)).get
    assert(described.columns.map(_.planned.column.name) == Seq("id"))
    assert(described.leftOut.map(_.name) == Seq("scattered", "name"))
  }

  test("a scan of one partition finds the index of the whole table") {
    val path = partitioned("partition")
    build(path, Seq("id"))
    assert(found(path + "/half=1").map(_.root) == found(path).map(_.root))
  }

  test("a scan whose partitions were pruned looks at the table's root, not in the partitions that are left") {
    val path = partitioned("pruned")
    build(path, Seq("id"))
    build(path + "/half=1", Seq("scattered"))
    // As pruning leaves it: partitions' directories, and the columns they stand for.
    val left = spark.read.option("basePath", path).parquet(path + "/half=1")
    val relation = left.queryExecution.analyzed.collectFirst {
      case LogicalRelation(files: HadoopFsRelation, _, _, _, _) =>
        files
    }.get
    assert(relation.location.rootPaths.map(_.getName) == Seq("half=1"))
    assert(IndexCatalog.find(spark, relation).get.columns.map(_.name) == Seq("id"))
    // Who names a partition alone asks for that.
    assert(found(path + "/half=1").get.columns.map(_.name) == Seq("scattered"))
  }

  /** Of the table's index: the manifest and the entries. */
  private def indexFiles(path: String): Set[String] =
    files(path).filter(_.getParent.endsWith(TablePath.IndexDirectory)).map(_.getFileName.toString).toSet

  test("an index is loaded once a query was analyzed, before it is asked for") {
    val path = partitioned("expected")
    build(path, Seq("id"))
    val index = indexFiles(path).filterNot(_.startsWith("."))
    val query = spark.read.parquet(path).where("id = 7")
    def opened(action: => Unit): Set[String] = OpenedFiles.during(action)._2.toSet.intersect(index)
    eventually(timeout(30.seconds)) {
      IndexCatalog.forget(table(path).root)
      val ahead = opened {
        query.select("id").queryExecution.analyzed
        Thread.sleep(300)
      }
      assert(ahead == index)
    }
    val later = opened(assert(found(path).flatMap(_.column("id")).isDefined))
    assert(!later.exists(_.startsWith(IndexStore.PartPrefix)))
  }

  test("a pattern that matches the index's directory reads the table's rows and no others") {
    val path = partitioned("globbed")
    val rows = spark.read.parquet(path).count()
    build(path, Seq("id"))
    for (pattern <- Seq("*", "*/*"))
      assert(spark.read.option("basePath", path).parquet(s"$path/$pattern").count() == rows, pattern)
  }

  test("the entries of an index are read when something is asked of a column that it covers, and not before") {
    val path = partitioned("deferred")
    build(path, Seq("id"))
    val entries = indexFiles(path).filter(_.startsWith(IndexStore.PartPrefix))
    def readsEntries(condition: String): Boolean = {
      val (rows, opened) = OpenedFiles.during(spark.read.parquet(path).where(condition).collect())
      assert(rows.nonEmpty)
      opened.exists(entries)
    }
    assert(!readsEntries("name = 'name 1' AND scattered < 500"))
    assert(readsEntries("id = 7"))
    assert(!readsEntries("id = 8"), "they are in memory now")
  }

  test("nobody looks at the index of one small file; of one that is large, or of several, it is found") {
    def indexed(path: String): String = {
      build(path, Seq("id"))
      IndexCatalog.forget(table(path).root)
      path
    }
    val small = indexed(write("small", spark.range(0, 100, 1, 1).toDF("id")))
    val entries = indexFiles(small).filter(_.startsWith(IndexStore.PartPrefix))
    val (index, opened) = OpenedFiles.during(found(small))
    assert(index.isEmpty && entries.nonEmpty && !opened.exists(entries))
    val large = at("large")
    spark.range(0, 1500000, 1, 1).selectExpr("id * 7919 AS id").write.option("compression", "none").parquet(large)
    assert(found(indexed(large)).isDefined)
    assert(found(indexed(write("several", spark.range(0, 100, 1, 2).toDF("id")))).isDefined)
  }

  test("the directories of partitions are no part of a table's root, however their columns are spelt") {
    def root(path: String, columns: String*) = TablePath.abovePartitions(new Path(path), columns).toString
    assert(root("s3a://lake/t/day=1/HOUR=2", "day", "hour") == "s3a://lake/t")
    assert(root("s3a://lake/t/day=1", "hour") == "s3a://lake/t/day=1")
    assert(root("s3a://lake/t/x/day=1", "day") == "s3a://lake/t/x")
    assert(root("s3a://lake/t", "day") == "s3a://lake/t")
  }

  test("a column that the scan reads as another type is not in its index") {
    val path = partitioned("typed")
    build(path, Seq("id", "name"))
    val read = spark.read.schema("id INT, name STRING, half LONG").parquet(path)
    val relation = read.queryExecution.analyzed.collectFirst {
      case LogicalRelation(files: HadoopFsRelation, _, _, _, _) =>
        files
    }.get
    val index = IndexCatalog.find(spark, relation).get
    assert(index.columns.map(_.name) == Seq("name"))
    assert(index.column("id").isEmpty)
  }

  test("a table without an index has none, and one that gets it is found at once by the session that built it") {
    val path = partitioned("late")
    assert(found(path).isEmpty)
    build(path, Seq("id"))
    assert(found(path).isDefined)
    assert(IndexMaintenance.drop(spark, table(path)))
    assert(!IndexMaintenance.drop(spark, table(path)))
    assert(found(path).isEmpty)
  }

  test("a catalog's table is found by its name, and what is no Parquet table is refused in words") {
    spark.range(0, 10).write.format("parquet").saveAsTable("named")
    spark.range(0, 10).write.format("json").saveAsTable("other_format")
    assert(IndexedTable.of(spark, Seq("default", "named")).columns.map(_.name) == Seq("id"))
    val refused = intercept[IllegalArgumentException](IndexedTable.of(spark, Seq("other_format")))
    assert(refused.getMessage.contains("not a Parquet table"))
  }

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

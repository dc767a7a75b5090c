package io.penstock.skipping.layout

import java.io.RandomAccessFile
import java.nio.file.Path

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{Path => HadoopPath}
import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.util.HadoopInputFile
import org.apache.spark.sql.functions._
import org.apache.spark.sql.{DataFrame, Row}
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.LocalSpark
import io.penstock.skipping.layout.RewriteTarget._

class TableRewriteTest extends AnyFunSuite with LocalSpark {

  override protected def settings: Map[String, String] = Map("spark.penstock.skipping.layout.object.size" -> "4k")

  private var made = 0

  /** A table of a name of its own: days, items in no order, nulls in both, and text. */
  private def table(clause: String = ""): String = {
    made += 1
    spark.sql(s"""CREATE TABLE t$made USING parquet $clause COMMENT 'sales' AS
                 |SELECT if(id % 50 = 0, null, cast(id % 8 AS int)) AS day, if(id % 40 = 0, null, id * 7919 % 1000) AS item,
                 |  id, concat('note ', id) AS note, cast(id % 3 AS string) AS shop FROM range(4000)""".stripMargin)
    s"t$made"
  }

  private def rewrite(table: String, layout: Layout, into: Option[String] = None): Row =
    spark.sql(s"REWRITE TABLE $table ${into.fold("")("INTO " + _)} ${layout.sql}").head()

  private def sorted(frame: DataFrame) = frame.select("id", "day", "item", "note", "shop").orderBy("id").collect().toSeq

  private def files(table: String) = spark
    .table(table)
    .groupBy(input_file_name())
    .agg(min("day"), max("day"), min("item"), max("item"), countDistinct("day"), count("*"))
    .collect()
    .toSeq

  test("no row is lost or changed; a partition is of one day, and its objects share the items out without overlap") {
    val name = table()
    val before = sorted(spark.table(name))
    val done = rewrite(name, Layout(Seq("DAY"), Seq(RangeLevel("item", Some(3)))))
    assert(sorted(spark.table(name)) == before && done.getAs[Long]("rows") == 4000)
    assert(spark.catalog.listColumns(name).filter("isPartition").collect().map(_.name).toSeq == Seq("day"))
    val objects = files(name)
    assert(objects.size == done.getAs[Long]("files") && objects.forall(_.getLong(5) <= 1))
    for ((_, ofDay) <- objects.filterNot(_.isNullAt(1)).groupBy(_.get(1))) {
      val ranges = ofDay.map(file => file.getLong(3) -> file.getLong(4)).sorted
      assert(ranges.size == 3 && ranges.zip(ranges.tail).forall { case (one, next) => one._2 < next._1 })
    }
  }

  test("ranges within ranges, as many as asked for") {
    val name = table()
    val before = sorted(spark.table(name))
    rewrite(name, Layout(Nil, Seq(RangeLevel("day", Some(4)), RangeLevel("item", Some(3)))))
    assert(sorted(spark.table(name)) == before)
    assert(files(name).size == 12)
  }

  test("a table that is only written into fewer, larger objects stays partitioned as it was") {
    val name = table("PARTITIONED BY (shop)")
    val before = sorted(spark.table(name))
    spark.conf.set("spark.penstock.skipping.layout.object.size", "1m")
    try rewrite(name, Layout(Seq("shop"), Nil))
    finally spark.conf.set("spark.penstock.skipping.layout.object.size", "4k")
    assert(sorted(spark.table(name)) == before)
    assert(files(name).size == 3 && spark.sql(s"SHOW PARTITIONS $name").count() == 3)
  }

  test("the copy is a table of its own, and the original is left as it is") {
    val name = table("PARTITIONED BY (shop)")
    val (before, there) = (sorted(spark.table(name)), files(name).toSet)
    rewrite(name, Layout(Nil, Seq(RangeLevel("day"))), into = Some(s"default.copy_$name"))
    assert(sorted(spark.table(s"copy_$name")) == before && files(name).toSet == there)
    assert(spark.sql(s"DESCRIBE EXTENDED copy_$name").where("data_type = 'sales'").count() == 1)
    val again = intercept[IllegalArgumentException](rewrite(name, Layout(Seq("shop"), Nil), into = Some(s"copy_$name")))
    assert(again.getMessage.contains("already"))
  }

  test("statistics that were collected are collected again, and the index is that of the new files") {
    val name = table()
    spark.sql(s"ANALYZE TABLE $name COMPUTE STATISTICS FOR COLUMNS day, item")
    rewrite(name, Layout(Seq("day"), Seq(RangeLevel("item"))))
    val described =
      spark.sql(s"DESCRIBE EXTENDED $name item").collect().map(row => row.getString(0) -> row.getString(1)).toMap
    assert(described("distinct_count").toLong > 900)
    val shown = spark.sql(s"SHOW SKIPPING INDEX ON $name").where("column = 'item'").head()
    assert(shown.getAs[Int]("files") == files(name).count(!_.isNullAt(3)))
  }

  test("characters of fixed length are stored as they were") {
    spark.sql("CREATE TABLE chars (c CHAR(5), id INT) USING parquet")
    spark.sql("INSERT INTO chars VALUES ('ab', 1), ('abcde', 2)")
    rewrite("chars", Layout(Seq("id"), Nil))
    assert(spark.sql("SELECT c FROM chars ORDER BY id").collect().map(_.getString(0)).toSeq == Seq("ab   ", "abcde"))
    assert(spark.sql("SHOW CREATE TABLE chars").head().getString(0).contains("CHAR(5)"))
  }

  test("what cannot be laid out so is refused in words, and nothing has changed") {
    val name = table()
    spark.sql(s"CREATE VIEW v_$name AS SELECT * FROM $name")
    spark.sql(s"CREATE TABLE buckets USING parquet CLUSTERED BY (id) INTO 2 BUCKETS AS SELECT * FROM $name")
    spark.sql(
      s"CREATE TABLE blanks USING parquet AS SELECT id, if(id = 3, '', 'x') AS kind, 1.5D AS price FROM range(9)"
    )
    val before = files(name).toSet
    val refusals = Seq(
      ("buckets", Layout(Seq("day"), Nil), "bucketed"),
      (s"v_$name", Layout(Seq("day"), Nil), "view"),
      (name, Layout(Seq("nowhere"), Nil), "no column nowhere"),
      (name, Layout(Seq("day"), Seq(RangeLevel("day"))), "twice"),
      ("blanks", Layout(Seq("kind"), Nil), "empty"),
      ("blanks", Layout(Seq("price"), Nil), "directories"),
      ("blanks", Layout(Nil, Seq(RangeLevel("price"))), "skipped by ranges")
    )
    for ((table, layout, why) <- refusals) {
      val refused = intercept[IllegalArgumentException](rewrite(table, layout))
      assert(refused.getMessage.contains(why))
    }
    assert(files(name).toSet == before)
  }

  test("a partition outside of its table's directory is refused, and can be written into another table") {
    val name = table("PARTITIONED BY (shop)")
    val place = directory.resolve(s"$name elsewhere").toUri
    spark.table(name).where("shop = '1'").drop("shop").write.parquet(place.toString)
    spark.sql(s"ALTER TABLE $name PARTITION (shop = '1') SET LOCATION '$place'")
    val before = sorted(spark.table(name))
    val refused = intercept[IllegalArgumentException](rewrite(name, Layout(Seq("shop"), Nil)))
    assert(refused.getMessage.contains("a partition of it is elsewhere") && refused.getMessage.contains("INTO"))
    rewrite(name, Layout(Seq("shop"), Nil), into = Some(s"${name}_new"))
    assert(sorted(spark.table(s"${name}_new")) == before)
  }

  test("a partition that is elsewhere below its table's directory moves to the new one") {
    val name = table("PARTITIONED BY (shop)")
    val place = directory.resolve("warehouse").resolve(name).resolve("shop=1_v2").toUri
    spark.table(name).where("shop = '1'").drop("shop").write.parquet(place.toString)
    spark.sql(s"ALTER TABLE $name PARTITION (shop = '1') SET LOCATION '$place'")
    val before = sorted(spark.table(name))
    rewrite(name, Layout(Seq("shop"), Nil))
    assert(sorted(spark.table(name)) == before)
  }

  test("in place, each partition is where Spark writes its rows") {
    val root = new HadoopPath("s3a://lake/t")
    val own = new HadoopPath(root, "shop=1")
    def problem(target: RewriteTarget, place: String) =
      RewriteTarget.misplaced(target, new HadoopPath(place), own, root).map(_.takeWhile(_ != ','))
    val elsewhere = Some("a partition of it is elsewhere")
    val places = Seq("s3a://lake/t/shop=1", "s3a://lake/t/shop=01", "s3a://lake/t/shop=1/v2", "s3a://lake/t2/shop=1")
    assert(places.map(problem(RewriteTarget.InPlace, _)) == None +: Seq.fill(3)(elsewhere))
    assert(places.map(problem(RewriteTarget.Renamed, _)) == Seq(None, None, None, elsewhere))
    assert(places.forall(problem(RewriteTarget.Beside(Seq("new")), _).isEmpty))
  }

  test("a partition whose location ends with a slash is where its rows would be written") {
    val name = table("PARTITIONED BY (shop)")
    val place = directory.resolve("warehouse").resolve(name).resolve("shop=1").toUri.toString.stripSuffix("/")
    spark.sql(s"ALTER TABLE $name PARTITION (shop = '1') SET LOCATION '$place/'")
    rewrite(name, Layout(Seq("shop"), Nil))
    assert(spark.table(name).count() == 4000)
  }

  test("a partition whose directory spells its value in another way moves to the usual one") {
    val place = directory.resolve("spelled").toUri.toString
    spark.range(10).write.parquet(s"$place/day=01")
    spark.sql(s"CREATE TABLE spelled (id BIGINT, day INT) USING parquet PARTITIONED BY (day) LOCATION '$place'")
    spark.sql("ALTER TABLE spelled RECOVER PARTITIONS")
    rewrite("spelled", Layout(Seq("day"), Nil))
    assert(spark.table("spelled").where("day = 1").count() == 10)
  }

  test("partitions of nulls, dates and characters that are escaped are in their own places") {
    spark.sql("""CREATE TABLE places USING parquet PARTITIONED BY (day, kind) AS SELECT id,
                |  if(id = 0, null, date_add(DATE'2026-01-01', int(id % 3))) AS day, concat('a/b: ', id % 2, '%') AS kind
                |  FROM range(20)""".stripMargin)
    val before = spark.table("places").orderBy("id").collect().toSeq
    rewrite("places", Layout(Seq("day", "kind"), Nil))
    assert(spark.table("places").select("id", "day", "kind").orderBy("id").collect().toSeq == before)
  }

  test("a table by path is not replaced on a file system that would delete it first") {
    val place = directory.resolve("by-path").toUri.toString
    spark.range(10).write.parquet(place)
    val table = s"parquet.`$place`"
    val byId = Layout(Nil, Seq(RangeLevel("id")))
    val refused = intercept[IllegalArgumentException](rewrite(table, byId))
    assert(refused.getMessage.contains("INTO") && spark.read.parquet(place).count() == 10)
    rewrite(table, byId, into = Some("from_path"))
    assert(spark.table("from_path").count() == 10)
  }

  test("a rewriting that fails half-way leaves nothing of itself, and the table as it was") {
    val name = table()
    val root = directory.resolve("warehouse").resolve(name)
    damage(root.resolve(root.toFile.list.filter(_.endsWith(".parquet")).max), column = "note")
    val there = directory.resolve("warehouse").toFile.list.toSet
    intercept[Exception](rewrite(name, Layout(Seq("day"), Seq(RangeLevel("item")))))
    assert(spark.table(name).select("id").distinct().count() == 4000)
    assert(directory.resolve("warehouse").toFile.list.toSet == there)
  }

  /** The footer stays whole, and so do the other columns. */
  private def damage(file: Path, column: String): Unit = {
    val input = HadoopInputFile.fromPath(new HadoopPath(file.toUri), new Configuration)
    val chunk = Using.resource(ParquetFileReader.open(input)) { reader =>
      reader.getFooter.getBlocks.get(0).getColumns.asScala.find(_.getPath.toDotString == column).get
    }
    Using.resource(new RandomAccessFile(file.toFile, "rw")) { data =>
      data.seek(chunk.getStartingPos)
      data.write(new Array[Byte](chunk.getTotalSize.toInt))
    }
  }

  private def choose(cataloged: Boolean, alike: Boolean, atOnce: Boolean, into: Option[Seq[String]] = None) =
    RewriteTarget.choose(into, cataloged, alike, atOnce)

  test("a table is never replaced in place where that deletes it before it was read") {
    for (cataloged <- Seq(true, false); alike <- Seq(true, false))
      assert(choose(cataloged, alike, atOnce = false) != Right(InPlace))
    assert(choose(cataloged = false, alike = true, atOnce = false).isLeft)
  }

  test("partitions that the catalog would not know of are not written below its table") {
    assert(choose(cataloged = true, alike = false, atOnce = true) == Right(Renamed))
    assert(choose(cataloged = true, alike = true, atOnce = true) == Right(InPlace))
    assert(choose(cataloged = false, alike = false, atOnce = true) == Right(InPlace))
  }

  test("a table of its own is always possible") {
    for (cataloged <- Seq(true, false); alike <- Seq(true, false); atOnce <- Seq(true, false))
      assert(choose(cataloged, alike, atOnce, into = Some(Seq("b"))) == Right(Beside(Seq("b"))))
  }
}

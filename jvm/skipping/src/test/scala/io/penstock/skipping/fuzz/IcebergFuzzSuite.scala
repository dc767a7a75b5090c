package io.penstock.skipping.fuzz

import scala.jdk.CollectionConverters._

import org.apache.iceberg.expressions.Expressions
import org.apache.iceberg.spark.{Spark3Util, SparkCatalog}
import org.apache.spark.sql.types.{StructField, StructType}
import org.apache.spark.sql.{Row, SparkSession}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.matchers.should.Matchers

import io.penstock.skipping.LocalSpark

/**
 * Random queries over random Iceberg tables, with deletes and changes of their schemas and partitions, have the same
 * answers with skipping and without. The properties are those of [[SoundnessFuzzSuite]].
 */
class IcebergFuzzSuite extends AnyFunSuite with Matchers with LocalSpark {

  private val QueriesPerWorld = 60

  /** So many that their numbers tell something of the fuzzer. */
  private val Enough = 900

  override protected def settings: Map[String, String] = FuzzedSpark.settings ++ Map(
    "spark.sql.catalog.ice" -> classOf[SparkCatalog].getName,
    "spark.sql.catalog.ice.type" -> "hadoop",
    "spark.sql.catalog.ice.warehouse" -> directory.resolve("iceberg").toUri.toString,
    "spark.sql.catalog.ice.cache-enabled" -> "false"
  )

  test("an answer over Iceberg tables is the same with skipping and without") {
    assume(FuzzedSpark.queries > 0, "asked for with -Dpenstock.fuzz.queries=N")
    val fuzzer = new Fuzzer(spark, directory, (seed, session, _) => new IcebergWorld(seed, session))
    // Making and changing these tables takes as long as asking so many queries more.
    val (seed, queries) = (FuzzedSpark.seed, math.max(1, FuzzedSpark.queries / 2))
    val tally = FuzzedSpark.only match {
      case Some(_) => fuzzer.run(seed, QueriesPerWorld, FuzzedSpark.only)
      case None =>
        val worlds = math.max(1, queries / QueriesPerWorld)
        (0 until worlds).map(n => fuzzer.run(seed + n, queries / worlds)).reduce(_ + _)
    }
    info(
      s"seed $seed: ${tally.asked} answers compared, ${tally.byKeys} skip files, ${tally.pointless.size} fail anyway"
    )
    tally.failures shouldBe empty
    if (tally.asked >= Enough) {
      withClue(tally.pointless.mkString("\n"))(tally.pointless.size should be < tally.asked / 8)
      tally.byKeys should be > tally.asked / 90
    }
  }
}

/** Iceberg tables of random properties, whose rows are deleted and whose columns change. */
final class IcebergWorld(seed: Long, session: SparkSession) extends World(seed) {

  private val dice = Dice.of(seed, 0, "world")
  private val namespace = s"ice.w${seed.toHexString}"
  private var ids = 0L

  private val usualNumber = IcebergWorld.kind(dice.of("INT", "BIGINT", "DECIMAL(9,2)"))
  private val usualDay = IcebergWorld.kind(dice.of("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"))

  // Iceberg has no collations; mostly all tables have keys of types that files are skipped by.
  override val tables: Seq[Table] = Table.all(dice).map { table =>
    table.copy(keys = table.keys.map { column =>
      column.kind.family match {
        case Kind.FoldedText => column.copy(kind = IcebergWorld.kind("STRING"))
        case Kind.Number if dice.chance(0.8) => column.copy(kind = usualNumber)
        case Kind.Day if dice.chance(0.8) => column.copy(kind = usualDay)
        case _ => column
      }
    })
  }

  // Iceberg reads manifests side by side.
  override protected val ordered: Boolean = false

  /** The present types of columns that are narrower than the table's in the end, by table and column. */
  private var narrow: Map[(String, String), String] = (for {
    table <- tables
    column <- table.keys
    sql <- IcebergWorld.Narrower.get(column.kind.sql)
    if dice.chance(0.3)
  } yield (table.name, column.name) -> sql).toMap

  session.sql(s"CREATE NAMESPACE $namespace")
  for (table <- tables) {
    create(table)
    append(table, dice, if (Table.isFact(table)) dice.between(3, 8) else dice.between(1, 3))
    rename(table)
    append(table, dice, if (Table.isFact(table)) dice.between(3, 8) else 1)
  }

  override protected def change(table: Table, dice: Dice): Unit = dice.weighed(
    3 -> (() => append(table, dice, dice.between(1, 4))),
    4 -> (() => delete(table, dice)),
    1 -> (() => overwrite(table, dice)),
    2 -> (() => repartition(table, dice)),
    2 -> (() => merge(table, dice)),
    2 -> (() => widen(table)),
    1 -> (() => forget(table, dice))
  )

  override def show(to: SparkSession): Unit =
    tables.foreach(table => to.table(name(table)).createOrReplaceTempView(table.name))

  override def remove(): Unit = {
    tables.foreach(table => session.sql(s"DROP TABLE IF EXISTS ${name(table)} PURGE"))
    session.sql(s"DROP NAMESPACE $namespace"): Unit
  }

  override def account: String =
    tables
      .map { table =>
        val files = session.sql(s"SELECT content, file_path, record_count, readable_metrics FROM ${name(table)}.files")
        session.table(name(table)).schema.treeString + files.collect().map("    " + _).mkString("\n")
      }
      .mkString("\n") + "\nhistory:\n" + history.map("    " + _).mkString("\n")

  private def name(table: Table): String = s"$namespace.${table.name}"

  private def typeOf(table: Table, column: Column): String =
    narrow.getOrElse((table.name, column.name), column.kind.sql)

  /** The first files have a column of another name. */
  private def firstName(column: Column): String = s"former_${column.name}"

  private def create(table: Table): Unit = {
    val columns = s"${Table.Id} BIGINT" +:
      (table.keys.map(column => s"${firstName(column)} ${typeOf(table, column)}") ++
        table.partition.map(column => s"${column.name} ${column.kind.sql}"))
    val properties = Map(
      "write.distribution-mode" -> "none",
      "write.spark.fanout.enabled" -> "true",
      "write.delete.mode" -> dice.of("merge-on-read", "merge-on-read", "copy-on-write"),
      "write.merge.mode" -> dice.of("merge-on-read", "copy-on-write"),
      "write.metadata.metrics.default" ->
        dice.of("truncate(16)", "truncate(16)", "full", "full", "truncate(1)", "counts", "none"),
      "write.format.default" -> dice.of("parquet", "parquet", "parquet", "parquet", "orc", "avro"),
      // Its deletes are vectors in Puffin files.
      "format-version" -> dice.of("2", "2", "3")
    )
    val clauses =
      table.partition.map(column => s"PARTITIONED BY (${dice.of("%s", "%s", "bucket(3, %s)").format(column.name)})")
    note(table, s"has $properties $clauses")
    session.sql(
      s"CREATE TABLE ${name(table)} (${columns.mkString(", ")}) USING iceberg ${clauses.getOrElse("")} " +
        properties.map { case (key, value) => s"'$key' = '$value'" }.mkString("TBLPROPERTIES (", ", ", ")")
    )
  }

  private def rename(table: Table): Unit = for (column <- table.keys)
    session.sql(s"ALTER TABLE ${name(table)} RENAME COLUMN ${firstName(column)} TO ${column.name}")

  private def append(table: Table, dice: Dice, files: Int): Unit = {
    val rowsEach = if (Table.isFact(table)) dice.between(4, 16) else dice.between(3, 10)
    val batch = new Rows(table, dice).batch(files, rowsEach, ids, table.keys, Map.empty)
    ids += files * rowsEach
    note(table, s"$files files of $rowsEach rows")
    val parts = batch.files.map(file =>
      file.rows.map(row => Row.fromSeq(row.toSeq ++ table.partition.map(_ => file.partition.orNull)))
    )
    val schema = StructType(
      Table.schema(table.keys) ++ table.partition.map(column => StructField(column.name, column.kind.dataType))
    )
    val rows = session.sparkContext.parallelize(parts, parts.size).flatMap(identity[Seq[Row]] _)
    val columns = table.keys.map(column => s"try_cast(${column.name} AS ${typeOf(table, column)}) AS ${column.name}")
    val present = session.table(name(table)).columns
    session
      .createDataFrame(rows, schema)
      .selectExpr((Table.Id +: columns) ++ table.partition.map(_.name): _*)
      .toDF(present.toSeq: _*)
      .writeTo(name(table))
      .append()
  }

  private def delete(table: Table, dice: Dice): Unit = {
    val condition = s"${Table.Id} % ${dice.between(2, 7)} = ${dice.below(2)}"
    note(table, s"rows are deleted where $condition")
    session.sql(s"DELETE FROM ${name(table)} WHERE $condition"): Unit
  }

  private def overwrite(table: Table, dice: Dice): Unit = {
    note(table, "is overwritten by")
    session.sql(s"DELETE FROM ${name(table)}")
    append(table, dice, dice.between(1, 6))
  }

  /** Files that are written from now on lie in other partitions. */
  private def repartition(table: Table, dice: Dice): Unit = {
    val present = Spark3Util.loadIcebergTable(session, name(table))
    val fields = present.spec.fields.asScala.map(_.name).toSeq
    val change = present.updateSpec()
    if (fields.nonEmpty && dice.chance(0.4)) {
      val field = dice.oneOf(fields)
      note(table, s"is no longer partitioned by $field")
      change.removeField(field).commit()
    } else {
      val column = table.partition.filter(_ => dice.chance(0.5)).fold(Table.Id)(_.name)
      // Iceberg refuses a field that it has already; a new table may have three buckets.
      val buckets = 3 + present.specs.size
      note(table, s"is also partitioned by bucket($buckets, $column)")
      change.addField(Expressions.bucket[Any](column, buckets)).commit()
    }
  }

  /** Deletes rows by the keys of another table, which may skip files of this one. */
  private def merge(table: Table, dice: Dice): Unit = {
    val other = dice.oneOf(tables.filter(_ != table))
    val column = dice.oneOf(table.keys)
    other.keys.find(_.kind == column.kind).foreach { source =>
      val matched = s"SELECT DISTINCT ${source.name} AS k FROM ${name(other)} WHERE ${Table.Id} % 5 = ${dice.below(5)}"
      val gone = s"SELECT count(*) FROM ${name(table)} WHERE ${column.name} IN (SELECT k FROM ($matched))"
      def count(sql: String): Long = session.sql(sql).head().getLong(0)
      val left = count(s"SELECT count(*) FROM ${name(table)}") - count(gone)
      note(table, s"rows are deleted by a merge with ${other.name} on ${column.name} = ${source.name}")
      session.sql(s"MERGE INTO ${name(table)} t USING ($matched) s ON t.${column.name} = s.k WHEN MATCHED THEN DELETE")
      val present = count(s"SELECT count(*) FROM ${name(table)}")
      assert(present == left, s"of seed $seed, a merge left $present rows and not $left\n$account")
    }
  }

  private def widen(table: Table): Unit = for (column <- table.keys if narrow.contains((table.name, column.name))) {
    note(table, s"${column.name} becomes ${column.kind.sql}")
    session.sql(s"ALTER TABLE ${name(table)} ALTER COLUMN ${column.name} TYPE ${column.kind.sql}")
    narrow -= (table.name -> column.name)
  }

  /** A column of the same name is another one: the files have nothing of it. */
  private def forget(table: Table, dice: Dice): Unit = {
    val column = dice.oneOf(table.keys)
    note(table, s"${column.name} is dropped and added again")
    session.sql(s"ALTER TABLE ${name(table)} DROP COLUMN ${column.name}")
    val after = (Table.Id +: table.keys.map(_.name)).takeWhile(_ != column.name).last
    session.sql(s"ALTER TABLE ${name(table)} ADD COLUMN ${column.name} ${typeOf(table, column)} AFTER $after"): Unit
  }
}

private object IcebergWorld {

  def kind(sql: String): Kind = Kind.All.find(_.sql == sql).get

  /** Types that Iceberg widens to the other one. */
  private val Narrower =
    Map("BIGINT" -> "INT", "DOUBLE" -> "FLOAT", "DECIMAL(18,6)" -> "DECIMAL(9,6)", "DECIMAL(9,2)" -> "DECIMAL(5,2)")
}

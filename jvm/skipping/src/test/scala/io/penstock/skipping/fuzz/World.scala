package io.penstock.skipping.fuzz

import java.math.{BigDecimal => Decimal}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Path
import java.time.{Instant, LocalDate, LocalDateTime, ZoneOffset}

import scala.util.Random

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{Path => HadoopPath}
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Row, SparkSession}

import io.penstock.skipping.build.{IndexMaintenance, IndexedTable}
import io.penstock.skipping.index.{Kind => IndexKind}
import io.penstock.skipping.model.Domain

/** Tables, and what happens to them between two queries: all of it follows from the seed. */
abstract class World(seed: Long) {

  def tables: Seq[Table]

  /** Changes a table before the n-th query. */
  final def change(n: Int): Unit = {
    val dice = Dice.of(seed, n, "change")
    change(dice.oneOf(tables), dice)
  }

  protected def change(table: Table, dice: Dice): Unit

  /** Shows a session the tables as they are now. */
  def show(to: SparkSession): Unit

  def remove(): Unit

  /** The tables and their history, for the account of a failure. */
  def account: String

  /** What happened so far. */
  protected var history: Vector[String] = Vector.empty

  /** Whether a table's rows come in the same order each time. */
  protected def ordered: Boolean

  protected def note(table: Table, what: String): Unit = history :+= s"${table.name} $what"

  /** The n-th query, to be asked in several ways. */
  final def query(n: Int): Seq[Query] = {
    val query = new Queries(tables, Dice.of(seed, n, "query"), ordered).next()
    val dice = Dice.of(seed, n, "other ways")
    query +: Seq.fill(World.OtherWays)(query.copy(settings = Settings.another(query.settings, dice)))
  }
}

object World {

  /** What a query answers without skipping has to be asked but once. */
  private val OtherWays = 2
}

/** Tables of Parquet files with indexes. */
final class ParquetWorld(seed: Long, session: SparkSession, directory: Path, make: Dice => Seq[Table] = Table.all)
    extends World(seed) {

  private val dice = Dice.of(seed, 0, "world")
  private val lake = new Lake(session, directory)
  private var ids = 0L

  override val tables: Seq[Table] = make(dice)

  override protected val ordered: Boolean = true

  for (table <- tables) {
    append(table, dice, if (Table.isFact(table)) dice.between(6, 14) else dice.between(1, 4))
    if (dice.chance(0.9)) index(table, dice) else note(table, "is not indexed")
  }

  override protected def change(table: Table, dice: Dice): Unit = dice.weighed(
    3 -> (() => append(table, dice, dice.between(1, 4))),
    3 -> (() => replace(table, dice)),
    2 -> (() => delete(table, dice)),
    2 -> (() => overwrite(table, dice)),
    3 -> (() => refresh(table)),
    3 -> (() => index(table, dice))
  )

  override def show(to: SparkSession): Unit = tables.foreach { table =>
    val path = lake.root(table).toUri.toString
    val view =
      if (table.inCatalog) {
        val name = s"w${seed.toHexString}_${table.name}"
        if (!to.catalog.tableExists(name)) create(to, table, name, path)
        if (table.partition.isDefined) to.catalog.recoverPartitions(name)
        to.catalog.refreshTable(name)
        to.table(name)
      } else {
        val schema = table.partition.foldLeft(table.schema)((all, p) => all.add(p.name, p.kind.dataType))
        to.read.schema(schema).parquet(path)
      }
    view.createOrReplaceTempView(table.name)
  }

  private def create(in: SparkSession, table: Table, name: String, path: String): Unit = {
    val columns = (s"${Table.Id} BIGINT" +: table.columns.map(c => s"${c.name} ${c.kind.sql}")).mkString(", ")
    val partitions = table.partition.fold("")(p => s"PARTITIONED BY (${p.name})")
    in.sql(s"CREATE TABLE $name ($columns) USING parquet $partitions LOCATION '$path'")
  }

  override def remove(): Unit = {
    tables.filter(_.inCatalog).foreach(t => session.sql(s"DROP TABLE IF EXISTS w${seed.toHexString}_${t.name}"))
    lake.remove()
  }

  override def account: String =
    tables
      .map { table =>
        val columns = table.columns.map(c => s"${c.name} ${c.kind.sql}").mkString(", ")
        val how = (if (table.inCatalog) "in the catalog" else "by path") + table.partition.fold("")(_ => ", by p")
        s"${table.name} ($columns) $how\n" + lake.listing(table).map("    " + _).mkString("\n")
      }
      .mkString("\n") + "\nhistory:\n" + history.map("    " + _).mkString("\n")

  private def batch(table: Table, dice: Dice, files: Int): Batch = {
    val rowsEach = if (Table.isFact(table)) dice.between(4, 16) else dice.between(3, 10)
    val (columns, evolution) = Writing.columns(table, dice)
    val settings = Writing.settings(dice)
    val made = new Rows(table, dice).batch(files, rowsEach, ids, columns, settings)
    ids += files * rowsEach
    note(table, s"$files files of $rowsEach rows$evolution ${settings.mkString(" ")}")
    made
  }

  private def append(table: Table, dice: Dice, files: Int): Unit = lake.add(table, batch(table, dice, files))

  private def replace(table: Table, dice: Dice): Unit = if (lake.count(table) > 0) {
    val number = dice.below(lake.count(table))
    note(table, s"file $number is replaced by")
    lake.replace(table, number, batch(table, dice, 1))
  }

  private def delete(table: Table, dice: Dice): Unit = if (lake.count(table) > 1) {
    val number = dice.below(lake.count(table))
    note(table, s"file $number is deleted")
    lake.delete(table, number)
  }

  private def overwrite(table: Table, dice: Dice): Unit = {
    note(table, "is overwritten by")
    while (lake.count(table) > 0) lake.delete(table, 0)
    append(table, dice, dice.between(1, 6))
  }

  private def refresh(table: Table): Unit = {
    note(table, "index is refreshed")
    IndexMaintenance.refresh(session, indexed(table))
  }

  /** Indexes all columns by all that can be recorded of them but bloom filters, which rule less out. */
  def indexValues(): Unit = for (table <- tables)
    IndexMaintenance.build(
      session,
      indexed(table),
      Some(indexable(table)),
      Some(Set(IndexKind.MinMax, IndexKind.Values))
    ): Unit

  private def indexable(table: Table): Seq[String] =
    table.keys.filter(column => Domain.of(column.kind.dataType).isDefined).map(_.name)

  private def index(table: Table, dice: Dice): Unit = {
    val indexable = this.indexable(table)
    if (indexable.nonEmpty) {
      val columns = dice.weighed(
        6 -> (() => Some(indexable)),
        2 -> (() => Some(dice.some(indexable, indexable.size))),
        1 -> (() => None)
      )
      val kinds = dice.of[Option[Set[IndexKind]]](
        None,
        Some(Set(IndexKind.MinMax)),
        Some(Set(IndexKind.MinMax, IndexKind.Values)),
        Some(Set(IndexKind.Bloom)),
        Some(Set(IndexKind.Values))
      )
      note(table, s"is indexed by $columns with $kinds")
      IndexMaintenance.build(session, indexed(table), columns, kinds)
    }
  }

  def indexed(table: Table): IndexedTable = {
    val root = new HadoopPath(lake.root(table).toUri.toString)
    IndexedTable(table.name, root.getFileSystem(new Configuration()).makeQualified(root), table.schema)
  }
}

final case class Column(name: String, kind: Kind)

/**
 * Files of one write.
 *
 * @param columns
 *   what these files have; fewer or of narrower types than the table's after its schema evolved
 * @param files
 *   their rows; for each file of a partitioned table the value of its partition column, too
 * @param settings
 *   of the session that writes them
 */
final case class Batch(columns: Seq[Column], files: Seq[FileRows], settings: Map[String, String])

final case class FileRows(partition: Option[Any], rows: Seq[Row])

/** A table: an `id` no two rows share, key columns of any kind, and maybe a partition column. */
final case class Table(
    name: String,
    keys: Seq[Column],
    partition: Option[Column],
    inCatalog: Boolean,
    clustered: Set[String]
) {

  val columns: Seq[Column] = keys ++ partition

  /** `id` and the columns that are in the files. */
  def schema: StructType = Table.schema(keys)
}

object Table {

  val Id = "id"

  def schema(columns: Seq[Column]): StructType =
    StructType(StructField(Id, LongType) +: columns.map(column => StructField(column.name, column.kind.dataType)))

  /** Tables in whose files keys of all families are found: facts of many files, dimensions of few. */
  def all(dice: Dice): Seq[Table] = {
    // Each family that this world joins by has one column per table.
    val families =
      dice.some(Seq(Kind.Number, Kind.Number, Kind.Day, Kind.Text, Kind.FoldedText, Kind.Bytes), 3).distinct
    // Mostly of one type: keys of two types say something of files only where one is widened.
    val usual = families.map(family => family -> dice.oneOf(Kind.ofFamily(family))).toMap
    def table(name: String, partitioned: Boolean): Table = {
      val keys = (families ++ families.take(1)).zipWithIndex.map { case (family, i) =>
        Column(s"k$i", if (dice.chance(0.7)) usual(family) else dice.oneOf(Kind.ofFamily(family)))
      }
      val partition = Option.when(partitioned)(Column("p", dice.oneOf(Kind.OfPartitions)))
      Table(name, keys, partition, dice.chance(0.4), keys.map(_.name).filter(_ => dice.chance(0.85)).toSet)
    }
    Seq(
      table("f", partitioned = dice.chance(0.4)),
      table("g", partitioned = dice.chance(0.2)),
      table("d", partitioned = false),
      table("e", partitioned = false)
    )
  }

  /** One with a column of every kind. */
  val OfEveryKind: Table = {
    val keys = Kind.All.zipWithIndex.map { case (kind, i) => Column(s"k$i", kind) }
    Table("f", keys, None, inCatalog = false, keys.map(_.name).toSet)
  }

  def isFact(table: Table): Boolean = table.name == "f" || table.name == "g"
}

/** The rows of a table's files. */
final class Rows(table: Table, dice: Dice) {

  /** Rows of so many files, `first` being the first one's id. */
  def batch(files: Int, rowsEach: Int, first: Long, columns: Seq[Column], settings: Map[String, String]): Batch = {
    val partitions = table.partition.map(column => Seq.fill(3)(column.kind.at(dice.below(Kind.Domain))) :+ null)
    var id = first - 1
    Batch(
      columns,
      (0 until files).map { file =>
        val values = columns.map(ofFile(_, file, files))
        FileRows(
          partitions.map(dice.oneOf(_)),
          Seq.fill(rowsEach) {
            id += 1
            Row.fromSeq(id +: values.map(_.apply()))
          }
        )
      },
      settings
    )
  }

  /** A clustered column's files have windows of the domain each, somewhat overlapping; the others all of it. */
  private def ofFile(column: Column, file: Int, files: Int): () => Any = {
    val width = math.max(1, Kind.Domain / files)
    val (low, high) =
      if (table.clustered(column.name.toLowerCase))
        (file * width % Kind.Domain, file * width % Kind.Domain + width * 5 / 4)
      else (0, Kind.Domain)
    val nulls = dice.of(0.0, 0.0, 0.1, 0.5, if (dice.chance(0.2)) 1.0 else 0.0)
    val edges = dice.of(0.0, 0.0, 0.0, 0.0, 0.1)
    () =>
      if (dice.chance(nulls)) null
      else if (dice.chance(edges)) dice.oneOf(column.kind.edges)
      else column.kind.at(math.min(dice.between(low, high), Kind.Domain - 1))
  }
}

/**
 * A column's type as the fuzzer knows it.
 *
 * @param family
 *   kinds of one family are compared and joined with each other
 * @param at
 *   the domain: an ascending value for each number from 0 to [[Kind.Domain]], the same one, as far as the type can say
 *   it, for all kinds of a family
 * @param edges
 *   what the type can hold at most, and what is known to be treated specially somewhere
 */
final case class Kind(sql: String, dataType: DataType, family: String, at: Int => Any, edges: Seq[Any]) {

  /** Whether values that are equal also look the same: which of them stands for a group is by chance otherwise. */
  def exact: Boolean = dataType != FloatType && dataType != DoubleType && family != Kind.FoldedText

  /** The value as SQL writes it, of this very type. */
  def literal(value: Any): String = value match {
    case null => s"CAST(NULL AS $sql)"
    case bytes: Array[Byte] => bytes.map(byte => f"$byte%02X").mkString("X'", "", "'")
    case text: String if family == Kind.Text => Kind.quoted(text)
    case text: String => s"${Kind.quoted(text)} COLLATE UTF8_LCASE"
    case instant: Instant => s"TIMESTAMP '$instant'"
    case time: LocalDateTime => s"TIMESTAMP_NTZ '$time'"
    case day: LocalDate => s"DATE '$day'"
    case other => s"CAST('$other' AS $sql)"
  }
}

object Kind {

  /** Values of a domain are numbered below this. */
  val Domain = 80

  val Number = "number"
  val Day = "day"
  val Text = "text"
  val FoldedText = "folded text"
  val Bytes = "bytes"

  private val Middle = Domain / 2
  private val FirstDay = LocalDate.of(2000, 1, 1)
  private val Early = LocalDate.of(1, 1, 1)
  private val Late = LocalDate.of(9999, 12, 31)
  // The last day of the Julian calendar, and the first one of the Gregorian.
  private val Switch = Seq(LocalDate.of(1582, 10, 4), LocalDate.of(1582, 10, 15), LocalDate.of(1899, 12, 31))

  private def number(sql: String, dataType: DataType, of: Int => Any, edges: Any*): Kind =
    Kind(sql, dataType, Number, i => of(i - Middle), edges)

  private def decimal(precision: Int, scale: Int): Kind = {
    def of(unscaled: BigInt): Decimal = new Decimal(unscaled.bigInteger, scale)
    val most = BigInt(10).pow(precision) - 1
    number(
      s"DECIMAL($precision,$scale)",
      DecimalType(precision, scale),
      i => of(BigInt(i) * BigInt(10).pow(scale)),
      of(most),
      of(-most),
      of(1),
      of(-1)
    )
  }

  private def quoted(text: String): String =
    text.map(c => if (c == '\'' || c == '\\') s"\\$c" else c.toString).mkString("'", "", "'")

  // Longer than what Parquet keeps of a bound (64 bytes) in every other value.
  private def text(i: Int): String = (if (i % 2 == 0) "k" else "k" * 70) + f"$i%03d"

  private val textEdges = Seq(
    "",
    " ",
    "k  ",
    "'\\%_",
    "K010",
    "kkk\u00e9",
    // In UTF-8 the first is smaller than the second, in UTF-16 greater.
    "\uffff",
    new String(Character.toChars(0x10ffff)),
    "\uffff" * 40,
    new String(Character.toChars(0x10ffff)) * 40,
    "\u0000"
  )

  /** The beginning of a day that a date names, too; every third time half a second later. */
  private def moment(i: Int): LocalDateTime =
    FirstDay.plusDays(i.toLong).atStartOfDay.plusNanos(if (i % 3 == 1) 500000000L else 0)

  private def instants(day: LocalDate): Seq[LocalDateTime] =
    Seq(day.atStartOfDay, day.atTime(23, 59, 59, 999999000))

  private val timeEdges = (Seq(Early, Late) ++ Switch).flatMap(instants)

  val All: Seq[Kind] = Seq(
    number("TINYINT", ByteType, _.toByte, Byte.MinValue, Byte.MaxValue),
    number("SMALLINT", ShortType, _.toShort, Short.MinValue, Short.MaxValue),
    number("INT", IntegerType, i => i, Int.MinValue, Int.MaxValue),
    number("BIGINT", LongType, _.toLong, Long.MinValue, Long.MaxValue),
    decimal(5, 1),
    decimal(9, 2),
    decimal(18, 0),
    decimal(18, 6),
    decimal(24, 2),
    number("FLOAT", FloatType, _.toFloat, Float.NaN, -0.0f, Float.NegativeInfinity, Float.PositiveInfinity),
    number("DOUBLE", DoubleType, _.toDouble, Double.NaN, -0.0, Double.NegativeInfinity, Double.PositiveInfinity),
    Kind("DATE", DateType, Day, i => FirstDay.plusDays(i.toLong), Seq(Early, Late) ++ Switch),
    Kind(
      "TIMESTAMP",
      TimestampType,
      Day,
      i => moment(i).toInstant(ZoneOffset.UTC),
      timeEdges.map(_.toInstant(ZoneOffset.UTC))
    ),
    Kind("TIMESTAMP_NTZ", TimestampNTZType, Day, moment, timeEdges),
    Kind("STRING", StringType, Text, text, textEdges),
    Kind("STRING COLLATE UTF8_LCASE", StringType("UTF8_LCASE"), FoldedText, text, textEdges),
    Kind(
      "BINARY",
      BinaryType,
      Bytes,
      text(_).getBytes(UTF_8),
      Seq(Array[Byte](), Array[Byte](0), Array[Byte](-1), Array.fill[Byte](80)(-1), Array[Byte](Byte.MinValue, 127))
    )
  )

  def ofFamily(family: String): Seq[Kind] = All.filter(_.family == family)

  /** The kinds that partition columns have here. */
  val OfPartitions: Seq[Kind] = Seq("INT", "DATE", "STRING").map(sql => All.find(_.sql == sql).get)
}

/** Choices that one number decides: the same seed throws the same again. */
final class Dice(seed: Long) {

  // Neighbouring seeds start alike in java.util.Random: the first throws are thrown away.
  private val random = new Random(seed * 0x9e3779b97f4a7c15L)
  random.nextLong()

  def below(bound: Int): Int = random.nextInt(bound)

  def between(low: Int, high: Int): Int = low + random.nextInt(high - low + 1)

  def chance(probability: Double): Boolean = random.nextDouble() < probability

  def of[A](first: A, more: A*): A = oneOf(first +: more)

  def oneOf[A](all: Seq[A]): A = all(random.nextInt(all.size))

  def some[A](all: Seq[A], atMost: Int): Seq[A] = random.shuffle(all).take(between(1, atMost))

  /** One of these, by their weights; only the chosen one is made. */
  def weighed[A](first: (Int, () => A), more: (Int, () => A)*): A = {
    val all = first +: more
    var left = below(all.map(_._1).sum)
    all.find { case (weight, _) => left -= weight; left < 0 }.get._2()
  }
}

object Dice {

  /** Dice of their own for the n-th of many things, so that each can be made again without the others. */
  def of(seed: Long, n: Int, purpose: String): Dice = new Dice(seed * 1000003 + n * 31L + purpose.hashCode)
}

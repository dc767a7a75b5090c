package io.penstock.skipping.fuzz

import org.apache.spark.sql.Row
import org.apache.spark.sql.types._

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

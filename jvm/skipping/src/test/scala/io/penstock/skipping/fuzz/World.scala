package io.penstock.skipping.fuzz

import java.nio.file.Path

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{Path => HadoopPath}
import org.apache.spark.sql.SparkSession

import io.penstock.skipping.index.{Domain, IndexMaintenance, IndexedTable, Kind => IndexKind}

/** Tables, their files and indexes, and what happens to them between two queries: all of it follows from the seed. */
final class World(seed: Long, session: SparkSession, directory: Path, make: Dice => Seq[Table] = Table.all) {

  private val dice = Dice.of(seed, 0, "world")
  private val lake = new Lake(session, directory)
  private var ids = 0L

  val tables: Seq[Table] = make(dice)

  /** What happened so far. */
  var history: Vector[String] = Vector.empty

  for (table <- tables) {
    append(table, dice, if (Table.isFact(table)) dice.between(6, 14) else dice.between(1, 4))
    if (dice.chance(0.9)) index(table, dice) else note(table, "is not indexed")
  }

  /** Changes a table before the n-th query. */
  def change(n: Int): Unit = {
    val dice = Dice.of(seed, n, "change")
    val table = dice.oneOf(tables)
    dice.weighed(
      3 -> (() => append(table, dice, dice.between(1, 4))),
      3 -> (() => replace(table, dice)),
      2 -> (() => delete(table, dice)),
      2 -> (() => overwrite(table, dice)),
      3 -> (() => refresh(table)),
      3 -> (() => index(table, dice))
    )
  }

  /** The n-th query, to be asked in several ways. */
  def query(n: Int): Seq[Query] = {
    val query = new Queries(tables, Dice.of(seed, n, "query")).next()
    val dice = Dice.of(seed, n, "other ways")
    query +: Seq.fill(World.OtherWays)(query.copy(settings = Settings.another(query.settings, dice)))
  }

  /** Shows a session the tables as they are now. */
  def show(to: SparkSession): Unit = tables.foreach { table =>
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

  def remove(): Unit = {
    tables.filter(_.inCatalog).foreach(t => session.sql(s"DROP TABLE IF EXISTS w${seed.toHexString}_${t.name}"))
    lake.remove()
  }

  def account: String =
    tables
      .map { table =>
        val columns = table.columns.map(c => s"${c.name} ${c.kind.sql}").mkString(", ")
        val how = (if (table.inCatalog) "in the catalog" else "by path") + table.partition.fold("")(_ => ", by p")
        s"${table.name} ($columns) $how\n" + lake.listing(table).map("    " + _).mkString("\n")
      }
      .mkString("\n") + "\nhistory:\n" + history.map("    " + _).mkString("\n")

  private def note(table: Table, what: String): Unit = history :+= s"${table.name} $what"

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

object World {

  /** What a query answers without skipping has to be asked but once. */
  private val OtherWays = 2
}

package io.penstock.skipping.index

import org.apache.spark.sql.SparkSession

import io.penstock.skipping.SkippingSettings

/** Building, refreshing, showing and dropping the index of a table. */
object IndexMaintenance {

  /**
   * An index of all of a table's files, in place of the one there was. Without columns, those are chosen that are worth
   * it; without kinds, what each is worth (of named columns, their bounds). Throws an `IllegalArgumentException` where
   * a column cannot be indexed, and an `IOException` where the table cannot be listed or the index not be written: the
   * former one then stands.
   *
   * @param asked
   *   what queries asked of the table before; looked at where columns are to be chosen
   */
  def build(
      spark: SparkSession,
      table: IndexedTable,
      columns: Option[Seq[String]] = None,
      kinds: Option[Set[Kind]] = None,
      asked: => Seq[Asked] = Nil
  ): Change = {
    val named = columns.map(ColumnChoice.requested(table, _, kinds.getOrElse(Set(Kind.MinMax))))
    val listed = TableListing.list(table.root, spark.sessionState.newHadoopConf())
    val choice = named.getOrElse {
      val (files, sampled) = Sampling.of(spark, table, listed, asked)
      val worth = new SkippingSettings(spark.sessionState.conf).maxFilesPerKey
      ColumnChoice.automatic(table, files, sampled, kinds, worth)
    }
    new IndexWriter(spark, table.root).build(choice.plan, choice.leftOut, listed)
  }

  /**
   * The index brought up to date: only files that are new or were changed are read. None: the table has no index.
   * Throws an `IOException` where it has one that cannot be used: build it anew.
   */
  def refresh(spark: SparkSession, table: IndexedTable): Option[Change] =
    new IndexWriter(spark, table.root).refresh()

  /** None: the table has no index. Throws an `IOException` where it has one that cannot be used. */
  def show(spark: SparkSession, table: IndexedTable): Option[IndexDescription] = {
    val store = new IndexStore(table.root, spark.sessionState.newHadoopConf())
    store.read().map { manifest =>
      val columns = manifest.plan.map(_.column)
      val index = TableIndex.of(table.root.toString, columns, store.entries(manifest, columns))
      val described = manifest.plan.map(planned => DescribedColumn(planned, index.column(planned.column.name)))
      IndexDescription(described, manifest.leftOut)
    }
  }

  /** Also an index that cannot be used. False: the table has none. */
  def drop(spark: SparkSession, table: IndexedTable): Boolean = {
    val dropped = new IndexStore(table.root, spark.sessionState.newHadoopConf()).drop()
    IndexCatalog.forget(table.root)
    dropped
  }
}

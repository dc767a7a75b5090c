package io.penstock.workloads.tpcds

import java.io.IOException

import io.trino.tpcds.Table
import org.apache.hadoop.fs.{FileUtil, Path}
import org.apache.spark.sql.{SaveMode, SparkSession}

import io.penstock.workloads.DataFiles

/**
 * What a table came to. `bytes` and `files` are of its data files alone.
 *
 * @param advised
 *   its layout, where that was advised instead of planned
 */
case class LoadedTable(
    plan: TablePlan,
    advised: Option[String],
    rows: Long,
    bytes: Long,
    files: Int,
    partitions: Int
) {
  def layout: String = advised.fold(plan.description)(layout => s"as advised: $layout")

  /** As planned; what a table is partitioned by that was advised otherwise, its layout says. */
  def partitionColumn: Option[String] = if (advised.isEmpty) plan.partitionColumn else None
}

/**
 * Generates, writes, registers and analyses tables of one scale in one database.
 *
 * @param from
 *   where the tables' files are copied from instead of being generated
 * @param advised
 *   lays out those tables for which it knows a better layout than the plan
 */
class TableLoader(
    spark: SparkSession,
    scale: Double,
    location: String,
    database: String,
    from: Option[String] = None,
    advised: Option[AdvisedTables] = None
) {

  private val items = TpcdsTable.session(scale).getScaling.getRowCount(Table.ITEM)

  /** What is under the table's location is replaced. */
  def load(plan: TablePlan): LoadedTable = {
    val name = plan.table.name
    remove(plan)
    val layout = advised.flatMap { tables =>
      describe(s"$name: laying out as advised")
      tables.write(name)
    }
    if (layout.isEmpty) loadAsPlanned(plan)
    measure(plan, layout)
  }

  /** Before anything is written: a table that was written as advised takes its files with it when it is dropped. */
  private def remove(plan: TablePlan): Unit = {
    spark.sql(s"DROP TABLE IF EXISTS ${qualified(plan.table.name)}")
    val place = new Path(directory(plan))
    val _ = place.getFileSystem(spark.sparkContext.hadoopConfiguration).delete(place, true)
  }

  private def loadAsPlanned(plan: TablePlan): Unit = {
    val name = plan.table.name
    from match {
      case Some(place) =>
        describe(s"$name: copying")
        copy(s"$place/$name", directory(plan))
      case None =>
        describe(s"$name: generating in ${plan.chunks} chunks, ${plan.description}")
        write(plan)
    }
    describe(s"$name: registering")
    register(plan)
    describe(s"$name: collecting statistics")
    spark.sql(s"ANALYZE TABLE ${qualified(name)} COMPUTE STATISTICS FOR ALL COLUMNS")
  }

  private def copy(source: String, target: String): Unit = {
    val configuration = spark.sparkContext.hadoopConfiguration
    val (in, out) = (new Path(source), new Path(target))
    val (store, place) = (in.getFileSystem(configuration), out.getFileSystem(configuration))
    if (!FileUtil.copy(store, in, place, out, false, configuration)) throw new IOException(s"$in was not copied whole")
  }

  private def write(plan: TablePlan): Unit = {
    val generated = spark.read
      .format(classOf[TpcdsSource].getName)
      .option("table", plan.table.name)
      .option("scale", scale.toString)
      .option("chunks", plan.chunks.toString)
      .load()
    val placed = plan.fact.fold(generated)(new FactPlacement(_, items).place(generated, plan.layout))
    placed.write
      .mode(SaveMode.Overwrite)
      .option("compression", "zstd")
      .partitionBy(plan.partitionColumn.toSeq: _*)
      .parquet(directory(plan))
  }

  private def register(plan: TablePlan): Unit = {
    val name = qualified(plan.table.name)
    val schema = plan.table.schema(TpcdsTable.session(scale).getScaling)
    val derived = plan.partitionColumn.filterNot(schema.fieldNames.contains).map(column => s"`$column` INT")
    val columns = (schema.fields.map(field => s"`${field.name}` ${field.dataType.sql}") ++ derived).mkString(", ")
    val partitioning = plan.partitionColumn.fold("")(column => s"PARTITIONED BY (`$column`)")
    spark.sql(s"CREATE TABLE $name ($columns) USING PARQUET $partitioning ${TableLoader.at(directory(plan))}")
    if (plan.partitionColumn.isDefined) spark.sql(s"ALTER TABLE $name RECOVER PARTITIONS")
  }

  private def measure(plan: TablePlan, advised: Option[String]): LoadedTable = {
    val name = plan.table.name
    val identifier = spark.sessionState.sqlParser.parseTableIdentifier(qualified(name))
    val rows = spark.sessionState.catalog.getTableMetadata(identifier).stats.flatMap(_.rowCount).map(_.toLong)
    val files = DataFiles.under(directory(plan), spark.sparkContext.hadoopConfiguration)
    LoadedTable(
      plan,
      advised,
      rows.getOrElse(0L),
      files.map(_.getLen).sum,
      files.size,
      files.map(_.getPath.getParent).distinct.size
    )
  }

  private def directory(plan: TablePlan): String = s"$location/${plan.table.name}"

  private def qualified(table: String): String = s"`$database`.`$table`"

  private def describe(step: String): Unit = spark.sparkContext.setJobDescription(step)
}

object TableLoader {

  /** Where a table or a database is to be, in SQL. */
  def at(location: String): String = s"LOCATION '${location.replace("'", "\\'")}'"
}

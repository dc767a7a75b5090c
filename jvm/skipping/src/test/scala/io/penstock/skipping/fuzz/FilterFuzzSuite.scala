package io.penstock.skipping.fuzz

import java.nio.file.{Files, Path}

import scala.util.control.NonFatal

import org.apache.hadoop.fs.FileStatus
import org.apache.spark.SparkThrowable
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan}
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.matchers.should.Matchers

import io.penstock.skipping.LocalSpark
import io.penstock.skipping.index.{IndexCatalog, TableIndex, TablePath}
import io.penstock.skipping.model.FilterTranslator

/**
 * Random filters, optimised by Spark, against every row of the files they drop. Nothing is run by Spark, so that many
 * more of them are asked than [[SoundnessFuzzSuite]] can ask queries.
 */
class FilterFuzzSuite extends AnyFunSuite with Matchers with LocalSpark with PredicateHelper {

  private val Worlds = 4
  // With the 600 queries of the profile fuzz: 400 and 200.
  private val FiltersPerTable = math.max(100, FuzzedSpark.queries * 2 / 3)
  private val CastsPerColumn = math.max(150, FuzzedSpark.queries / 3)

  override protected def settings: Map[String, String] = FuzzedSpark.settings

  test("no file that a filter drops holds a row for which it is true") {
    val seeds = (0 until Worlds).map(FuzzedSpark.seed + _)
    val asked = seeds.map { seed =>
      val world = new ParquetWorld(seed, spark, place(seed))
      world.change(0)
      ask(seed, world, FiltersPerTable) { (predicates, dice, table) =>
        if (dice.chance(0.3)) predicates.selective(table.name, dice.oneOf(table.columns))
        else predicates.any(table.name, table.columns)
      }
    }
    info(s"seeds $seeds: ${asked.flatten.size} filters, ${asked.flatten.count(_ > 0)} of them drop files")
    asked.flatten.count(_ > 0) should be > Worlds * FiltersPerTable / 20
  }

  test("nor does one on a column of any type that goes through one to four casts") {
    val seed = FuzzedSpark.seed
    val world = new ParquetWorld(seed, spark, place(seed), _ => Seq(Table.OfEveryKind))
    world.indexValues()
    val asked = ask(seed, world, CastsPerColumn * Kind.All.size) { (predicates, dice, table) =>
      // Most casts that lose something, and that Spark does by itself, are those of times.
      val times = table.columns.filter(_.kind.family == Kind.Day)
      predicates.cast(table.name, dice.oneOf(if (dice.chance(0.5)) times else table.columns))
    }
    info(s"seed $seed: ${asked.size} filters, ${asked.count(_ > 0)} of them drop files")
    asked.count(_ > 0) should be > CastsPerColumn
  }

  private def place(seed: Long): Path = Files.createTempDirectory(directory, s"filters-$seed-")

  /** Of each filter that could be asked, how many files it drops. */
  private def ask(seed: Long, world: World, filters: Int)(filter: (Predicates, Dice, Table) => String): Seq[Int] = {
    world.show(spark)
    val asked = for {
      table <- world.tables.filter(Table.isFact)
      known <- Known.of(spark, table.name).toSeq
      n <- 0 until filters
      dice = Dice.of(seed, n, s"filter of ${table.name}")
      _ = spark.conf.set("spark.sql.ansi.enabled", dice.chance(0.5).toString)
      _ = spark.conf.set("spark.sql.session.timeZone", dice.of("UTC", "America/Los_Angeles", "Asia/Kathmandu"))
      dropped <- known.dropped(filter(new Predicates(dice), dice, table))
    } yield dropped
    world.remove()
    asked
  }

  /** The rows of a table's files that its index knows. */
  private class Known(
      spark: SparkSession,
      table: String,
      index: TableIndex,
      attributes: Seq[Attribute],
      rows: Map[Int, Seq[InternalRow]]
  ) {

    /** How many files this filter drops; none where it cannot be asked. Fails where one of them has rows for it. */
    def dropped(filter: String): Option[Int] =
      try {
        val plan = spark.table(table).where(filter).queryExecution.optimizedPlan
        condition(plan).map { condition =>
          val asked =
            new FilterTranslator(index.columns, caseSensitive = false).translate(splitConjunctivePredicates(condition))
          val kept = index.select(asked)
          val predicate = Predicate.createInterpreted(bind(condition))
          val gone = rows.filterNot { case (file, _) => kept.get(file) }
          for ((file, inFile) <- gone; row <- inFile)
            assert(!predicate.eval(row), s"file $file is dropped by $filter, as $asked, but holds $row")
          gone.size
        }
      } catch {
        // What a filter throws for some row, it throws with and without an index.
        case NonFatal(_: ArithmeticException | _: SparkThrowable) => None
      }

    /** None where Spark found the filter to be true or false of everything. */
    private def condition(plan: LogicalPlan): Option[Expression] =
      plan.collectFirst { case Filter(condition, _: LogicalRelation) => condition }

    private def bind(condition: Expression): Expression = condition.transform { case attribute: Attribute =>
      val at = attributes.indexWhere(_.name.equalsIgnoreCase(attribute.name))
      BoundReference(at, attribute.dataType, nullable = true)
    }
  }

  private object Known {

    /** None where the table has no index. */
    def of(spark: SparkSession, table: String): Option[Known] = {
      val frame = spark.table(table)
      val relation = frame.queryExecution.analyzed.collectFirst {
        case LogicalRelation(relation: HadoopFsRelation, _, _, _, _) => relation
      }.get
      IndexCatalog.find(spark, relation).map { index =>
        val numbers = relation.location
          .listFiles(Nil, Nil)
          .flatMap(_.files)
          .map(file => file.getPath.getName -> number(index, file.fileStatus))
          .toMap
        val all = frame.selectExpr("substring_index(input_file_name(), '/', -1) AS file", "*").queryExecution
        val rows = all.toRdd.map(_.copy()).collect().toSeq.groupBy(row => numbers(row.getUTF8String(0).toString))
        new Known(spark, table, index, all.analyzed.output, rows.filter(_._1 >= 0))
      }
    }

    private def number(index: TableIndex, file: FileStatus): Int = {
      val directory = TablePath.relative(index.root, file.getPath.getParent.toString).get
      index.find(directory, file.getPath.getName, file.getLen, file.getModificationTime)
    }
  }
}

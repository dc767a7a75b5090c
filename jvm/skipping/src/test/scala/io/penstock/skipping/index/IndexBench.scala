package io.penstock.skipping.index

import java.nio.file.{Files, Path, StandardCopyOption}
import java.util.Locale

import org.apache.hadoop.fs.FileUtil
import org.apache.spark.sql.SparkSession

import io.penstock.skipping.build.{IndexMaintenance, IndexedTable}

/**
 * What building, refreshing and loading an index cost, on an idle machine, in a directory of a local disk (nothing else
 * of it is touched):
 * {{{
 * mvn -q -f jvm/pom.xml -pl skipping test-compile exec:exec -Dexec.executable=java -Dexec.classpathScope=test \
 *   -Dexec.args="-Xmx2g ${spark.java.options} -cp %classpath io.penstock.skipping.index.IndexBench DIRECTORY [FILES [COLUMNS]]"
 * }}}
 * A table of FILES (1000) small files of 20 columns in 50 partitions, of which COLUMNS (5) are indexed. From a store,
 * each file adds the two or three round trips of reading a footer, sixteen files of a task at once.
 */
object IndexBench {

  private val Partitions = 50
  private val AllColumns = 20

  def main(arguments: Array[String]): Unit = {
    val directory = Path.of(arguments(0)).resolve("index-bench")
    val files = arguments.lift(1).fold(1000)(_.toInt)
    val columns = arguments.lift(2).fold(5)(_.toInt)
    val spark = SparkSession.builder().master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    try {
      val table = write(spark, directory, files)
      val names = (0 until columns).map(n => s"c$n")
      // The first one pays for classes that are loaded.
      for (run <- 1 to 3) {
        IndexMaintenance.drop(spark, table)
        def per(seconds: Double) = seconds * 1000 / files
        row(
          s"build, run $run, seconds per 1,000 files",
          per(secondsOf(IndexMaintenance.build(spark, table, Some(names))))
        )
        row("refresh with nothing changed, s per 1,000 files", per(secondsOf(IndexMaintenance.refresh(spark, table))))
        row("load and describe, seconds per 1,000 files", per(secondsOf(IndexMaintenance.show(spark, table))))
      }
    } finally {
      spark.stop()
      FileUtil.fullyDelete(directory.toFile)
    }
  }

  /** One file, copied: its content does not matter to what it costs. */
  private def write(spark: SparkSession, directory: Path, files: Int): IndexedTable = {
    val one = directory.resolve("one")
    val columns = (0 until AllColumns).map(n => s"id * ${n + 1} AS c$n")
    spark.range(0, 1000, 1, 1).selectExpr(columns: _*).write.parquet(one.toUri.toString)
    val source = Files.list(one).filter(_.toString.endsWith(".parquet")).findFirst.get
    for (n <- 0 until files) {
      val partition = Files.createDirectories(directory.resolve(s"table/day=${n % Partitions}"))
      Files.copy(source, partition.resolve(f"part-$n%06d.parquet"), StandardCopyOption.REPLACE_EXISTING)
    }
    IndexedTable.at(spark, directory.resolve("table").toUri.toString)
  }

  private def row(what: String, seconds: Double): Unit = println("%-55s %8.3f".formatLocal(Locale.ROOT, what, seconds))

  private def secondsOf(action: => Any): Double = {
    val start = System.nanoTime
    action
    (System.nanoTime - start) / 1e9
  }
}

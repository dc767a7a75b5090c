package io.penstock.skipping.index

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Files
import java.util.Locale

import scala.util.Random

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.types.{LongType, StringType}

import io.penstock.skipping.model.FileFilter.Among
import io.penstock.skipping.model.{IndexedColumn, RangeSet, Value}

/**
 * What an index of many files costs in the driver, on one thread of an idle machine:
 * {{{
 * mvn -q -f jvm/pom.xml -pl skipping test-compile exec:exec -Dexec.executable=java -Dexec.classpathScope=test \
 *   -Dexec.args="-Xmx8g -XX:+UseParallelGC -cp %classpath io.penstock.skipping.index.TableIndexBench [FILES [REPETITIONS]]"
 * }}}
 * FILES (1000000) in a thousand directories, with a column by which they are clustered, one whose bounds overlap in
 * nearly all of them, one of strings, and one with a list of eight values in each file.
 */
object TableIndexBench {

  private val ValuesInFile = 8

  private val numbers = Seq("clustered", "scattered", "listed").map(IndexedColumn(_, LongType))
  private val strings = IndexedColumn("string", StringType)

  def main(arguments: Array[String]): Unit = {
    def number(n: Int, otherwise: Int): Int = arguments.lift(n).fold(otherwise)(_.toInt)
    val bench = new TableIndexBench(number(0, 1000000), number(1, 9))
    bench.load()
    bench.run()
  }

  /** The median of some samples, and their range. */
  private def row(what: String, unit: String, samples: Seq[Double]): Unit = {
    val sorted = samples.sorted
    val text = "%-62s %-10s n %3d  median %10.3f  from %10.3f to %10.3f"
    println(text.formatLocal(Locale.ROOT, what, unit, sorted.size, sorted(sorted.size / 2), sorted.head, sorted.last))
  }

  private def msOf(body: => Unit): Double = {
    val start = System.nanoTime
    body
    (System.nanoTime - start) / 1e6
  }

  private def heldBytes(): Long = {
    val runtime = Runtime.getRuntime
    (1 to 3).foreach(_ => runtime.gc())
    runtime.totalMemory - runtime.freeMemory
  }
}

private class TableIndexBench(files: Int, repetitions: Int) {
  import TableIndexBench._

  private val columns = numbers :+ strings
  private def nameOf(file: Int) = f"part-$file%05d-2f0b3c1e-6a4d-4f58-9b7a-0d8c5e1f7a92-c000.snappy.parquet"

  private def entries(columns: Seq[IndexedColumn]): Iterator[FileEntry] = Iterator.range(0, files).map { file =>
    val known = columns.map(column => column.name -> columnEntry(column.name, file)).toMap
    FileEntry(s"day=${file % 1000}", nameOf(file), 32L << 20, 1700000000000L, 1000000, known)
  }

  private def columnEntry(column: String, file: Int): ColumnEntry = column match {
    case "clustered" => bounds(Value.Integral(file * 1000L), Value.Integral(file * 1000L + 999))
    case "scattered" => bounds(Value.Integral(file % 1000L), Value.Integral(1000L * files - file % 1000L))
    case "string" => bounds(string(file * 1000L), string(file * 1000L + 999))
    case _ =>
      val random = new Random(file)
      val values = Seq.fill(ValuesInFile)(random.nextLong(1000L * files)).sorted.map(Value.Integral(_))
      bounds(values.head, values.last).copy(values = Some(values))
  }

  private def bounds(low: Value, high: Value) = ColumnEntry(Some(0), Some(low), Some(high))

  private def string(number: Long): Value = Value.Bytes(f"customer-$number%012d".getBytes(UTF_8))

  /** Written and read as the index on disk is. */
  def load(): Unit = {
    val directory = Files.createTempDirectory("penstock-bench")
    val part = new Path(directory.resolve("part.parquet").toUri)
    val conf = new Configuration
    row(s"write a part of $files files", "ms", Seq(msOf(EntryWriter.write(entries(columns), columns, part, conf))))
    val length = Files.size(directory.resolve("part.parquet"))
    row("its size", "bytes/file", Seq(length.toDouble / files))
    val listed = Manifest.Part("part.parquet", length, files)
    for (covered <- Seq(numbers.take(1), columns))
      row(
        s"read it, ${covered.length} of its columns, into memory",
        "ms",
        Seq.fill(3)(msOf {
          TableIndex.of("s3a://lake/t", covered, EntryReader.read(part, listed, covered, conf))
        })
      )
    Files.list(directory).forEach(file => Files.delete(file))
    Files.delete(directory)
  }

  def run(): Unit = {
    val names = index("names alone", Seq.empty)
    row(
      "find every file",
      "ms",
      Seq.fill(repetitions)(msOf {
        for (file <- 0 until files)
          assert(names.find(s"day=${file % 1000}", nameOf(file), 32L << 20, 1700000000000L) == file)
      })
    )
    for (column <- columns) {
      val table = index(s"names and a ${column.name} column", Seq(column))
      row(s"files per key of the ${column.name} column", "ms", Seq(msOf(table.column(column.name))))
      for (count <- Seq(1, 10, 100, 1000, 10000)) {
        val keys = keysOf(column, count)
        val times = Seq.fill(repetitions)(msOf(table.select(Among(column.name, keys))))
        val kept = table.select(Among(column.name, keys)).cardinality
        row(s"select by $count keys of the ${column.name} column: $kept files", "ms", times)
      }
    }
  }

  private def index(what: String, columns: Seq[IndexedColumn]): TableIndex = {
    val before = heldBytes()
    val table = TableIndex.of("s3a://lake/t", columns, entries(columns))
    row(s"memory: $what", "bytes/file", Seq((heldBytes() - before).toDouble / files))
    table
  }

  private def keysOf(column: IndexedColumn, count: Int): RangeSet = {
    val random = new Random(count)
    val drawn = Array.fill(count)(random.nextLong(1000L * files))
    if (column == strings) RangeSet.Bytes.points(drawn.map(string).collect { case Value.Bytes(bytes) => bytes })
    else RangeSet.Integral.points(drawn)
  }
}

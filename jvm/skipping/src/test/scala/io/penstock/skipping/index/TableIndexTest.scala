package io.penstock.skipping.index

import java.util.Arrays

import org.apache.spark.sql.types.{LongType, StringType}
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.penstock.skipping.model.FileFilter._
import io.penstock.skipping.model.{FilterModel, IndexedColumn, RangeSet, Value}

/** What the index selects against the rows of the files it was made of. */
class TableIndexTest extends AnyFunSuite with ScalaCheckPropertyChecks {

  import FilterModel._
  import TableIndexTest._

  implicit override val generatorDrivenConfig: PropertyCheckConfiguration =
    PropertyCheckConfiguration(minSuccessful = 500)

  test("a file with a matching row is selected, whatever part of its statistics is missing or loose") {
    forAll(Gen.listOf(file), filters) { (files, filter) =>
      val selected = index(files.map(_.entry)).select(filter)
      files.indices.foreach(i => if (files(i).rows.exists(matches(filter, _))) assert(selected.get(i)))
    }
  }

  test("of a file whose distinct values are known, a question to one column is answered exactly") {
    forAll(Gen.listOf(rows), questions) { (files, filter) =>
      val selected = index(files.map(exactly)).select(filter)
      files.indices.foreach(i => assert(selected.get(i) == files(i).exists(matches(filter, _))))
    }
  }

  test("of a file whose bounds are known, a file is selected only if keys are between them") {
    forAll(Gen.listOf(rows), Gen.oneOf(numberLeaf, byteLeaf)) { (files, leaf) =>
      val bounds = files
        .map(exactly)
        .map(entry =>
          entry.copy(columns = entry.columns.map { case (name, column) =>
            name -> column.copy(values = None)
          })
        )
      val selected = index(bounds).select(leaf)
      for (i <- files.indices) {
        val column = bounds(i).columns(leaf.column)
        val between = for (low <- column.minimum; high <- column.maximum) yield (low, high) match {
          case (Value.Integral(low), Value.Integral(high)) => RangeSet.Integral.interval(low, high)
          case (Value.Bytes(low), Value.Bytes(high)) =>
            RangeSet.Bytes.atLeast(low).intersect(RangeSet.Bytes.greaterThan(high).complement)
          case _ => fail()
        }
        assert(selected.get(i) == between.exists(!_.intersect(leaf.keys).isEmpty))
      }
    }
  }

  test("a bloom filter denies the files that hold none of a few scattered keys") {
    val files = (0 until 100).map { i =>
      val bloom = BloomFilter.sized(10, 0.01)
      val values = (0 until 10).map(j => Value.Integral(i + 1000L * j))
      values.foreach(bloom.put)
      entry(s"f$i", 10, "n" -> ColumnEntry(Some(0), Some(values.head), Some(values.last), bloom = Some(bloom)))
    }
    val selected = index(files).select(Among("n", RangeSet.Integral.points(Array(3042, 7042, 9017))))
    assert(selected.get(42) && selected.get(17))
    assert(selected.cardinality < 12)
    assert(index(files).select(Among("n", RangeSet.Integral.interval(3040, 13042))).cardinality == 100)
  }

  test("statistics that contradict themselves or are of another type than their column's say nothing") {
    val crossed = ColumnEntry(minimum = Some(Value.Integral(9)), maximum = Some(Value.Integral(1)))
    val typed = ColumnEntry(minimum = Some(Value.Bytes(Array(1))), maximum = Some(Value.Bytes(Array(1))))
    val table = index(Seq(entry("crossed", 1, "n" -> crossed), entry("typed", 1, "n" -> typed)))
    assert(table.select(Among("n", RangeSet.Integral.interval(100, 200))).cardinality == 2)
    assert(table.select(Among("n", RangeSet.Bytes.prefix(Array(1)))).cardinality == 2)
    assert(table.select(Among("unknown", RangeSet.Integral.interval(100, 200))).cardinality == 2)
  }

  test("a file is found by its path, and only as it was indexed") {
    val places = Gen.zip(Gen.oneOf("", "a", "a/b"), Gen.oneOf("x", "y", "xy"), Gen.choose(1L, 2L), Gen.choose(1L, 2L))
    forAll(Gen.listOf(places), places) { case (indexed, (directory, name, length, time)) =>
      val entries = indexed.map { case (d, n, l, t) => FileEntry(d, n, l, t, 1, Map.empty) }
      val last = indexed.lastIndexWhere { case (d, n, _, _) => d == directory && n == name }
      val expected = if (last >= 0 && indexed(last) == ((directory, name, length, time))) last else -1
      assert(index(entries).find(directory, name, length, time) == expected)
    }
  }

  test(
    "files per key: one of the files if these do not overlap, all of them if these all overlap or nothing is known"
  ) {
    def shareOf(bounds: Int => Option[(Long, Long)]): Double =
      index((0 until 50).map { i =>
        val column = bounds(i).fold(ColumnEntry()) { case (low, high) =>
          ColumnEntry(Some(0), Some(Value.Integral(low)), Some(Value.Integral(high)))
        }
        entry(s"f$i", 100, "n" -> column)
      }).column("n").get.filesPerKey
    assert(shareOf(i => Some((i * 100L, i * 100L + 99))) == 0.02)
    assert(shareOf(_ => Some((0, 1000000))) == 1.0)
    assert(shareOf(_ => None) == 1.0)
    assert(math.abs(shareOf(i => Option.when(i % 2 == 0)((i * 100L, i * 100L + 99))) - 0.52) < 1e-9)
    // Half of the files' range each: a value in the middle is in nearly all, one at the ends in nearly none.
    assert(math.abs(shareOf(i => Some((i * 100L, i * 100L + 2500))) - 0.33) < 0.1)
  }

  test("files per key: values known to be scattered are not clustered by their bounds, nor the other way round") {
    val scattered = (0 until 20).map { i =>
      val values = (0L until 10L).map(j => Value.Integral(j * 20 + i))
      entry(s"f$i", 10, "n" -> ColumnEntry(Some(0), values = Some(values)))
    }
    assert(index(scattered).column("n").get.filesPerKey == 0.05)
    val unlisted = scattered.map { file =>
      val values = file.columns("n").values.get
      file.copy(columns = Map("n" -> ColumnEntry(Some(0), values.headOption, values.lastOption)))
    }
    assert(index(unlisted).column("n").get.filesPerKey > 0.9)
  }

  test("an index of no files selects none and has nothing to tell") {
    val empty = index(Seq.empty)
    assert(empty.files == 0 && empty.select(Anything).isEmpty && empty.find("", "x", 1, 1) == -1)
    assert(empty.column("n").get == ColumnSummary(columns.head, 1.0, 0))
  }
}

object TableIndexTest {

  import FilterModel._

  case class File(rows: Seq[Row], entry: FileEntry)

  private val columns = Seq(IndexedColumn("n", LongType), IndexedColumn("s", StringType))

  private def index(entries: Seq[FileEntry]): TableIndex = TableIndex.of("s3a://lake/t", columns, entries)

  private def entry(name: String, rows: Long, columns: (String, ColumnEntry)*): FileEntry =
    FileEntry("", name, 1, 1, rows, columns.toMap)

  private val rows: Gen[Seq[Row]] = Gen.choose(0, 5).flatMap(Gen.listOfN(_, row))

  private def exactly(rows: Seq[Row]): FileEntry = entry(
    "f",
    rows.length,
    "n" -> columnEntry(rows.map(_._1.map(Value.Integral(_)))),
    "s" -> columnEntry(rows.map(_._2.map(Value.Bytes(_))))
  )

  private def columnEntry(column: Seq[Option[Value]]): ColumnEntry = {
    val values = column.flatten.sorted(order)
    ColumnEntry(Some(column.count(_.isEmpty)), values.headOption, values.lastOption, Some(values))
  }

  private val order: Ordering[Value] = {
    case (Value.Integral(a), Value.Integral(b)) => a.compare(b)
    case (Value.Bytes(a), Value.Bytes(b)) => Arrays.compareUnsigned(a, b)
    case _ => throw new IllegalArgumentException
  }

  private val file: Gen[File] = for {
    rows <- rows
    exact = exactly(rows)
    columns <- Gen.sequence[Seq[(String, ColumnEntry)], (String, ColumnEntry)](
      exact.columns.toSeq.map { case (name, column) => loosened(column).map(name -> _) }
    )
    known <- Gen.someOf(columns)
  } yield File(rows, exact.copy(columns = known.toMap))

  private def loosened(exact: ColumnEntry): Gen[ColumnEntry] = {
    def sometimes[T](part: Option[T]): Gen[Option[T]] = Gen.oneOf(part, None)
    for {
      nulls <- sometimes(exact.nulls)
      minimum <- sometimes(exact.minimum)
      lower <- Gen.oneOf(minimum, minimum.map(below))
      maximum <- sometimes(exact.maximum)
      higher <- Gen.oneOf(maximum, maximum.map(above))
      values <- sometimes(exact.values)
      filter = BloomFilter.sized(4, 0.01)
      _ = exact.values.get.foreach(filter.put)
      bloom <- sometimes(Some(filter))
    } yield ColumnEntry(nulls, lower, higher, values, bloom)
  }

  private def below(value: Value): Value = value match {
    case Value.Integral(number) => Value.Integral(if (number == Long.MinValue) number else number - 1)
    case Value.Bytes(bytes) => Value.Bytes(bytes.dropRight(1))
  }

  private def above(value: Value): Value = value match {
    case Value.Integral(number) => Value.Integral(if (number == Long.MaxValue) number else number + 1)
    case Value.Bytes(bytes) => Value.Bytes(bytes :+ 7.toByte)
  }
}

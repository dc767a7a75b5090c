package io.penstock.skipping.model

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.penstock.skipping.index.{ColumnEntry, FileEntry, TableIndex}
import io.penstock.skipping.testing.Properties

class FileFilterTest extends AnyFunSuite with Properties {

  import FilterModel._

  test("what filters are simplified to says of every row what they said") {
    forAll(Gen.choose(0, 4).flatMap(Gen.listOfN(_, filters)), row) { (parts, row) =>
      assert(matches(FileFilter.and(parts), row) == parts.forall(matches(_, row)))
      assert(matches(FileFilter.or(parts), row) == parts.exists(matches(_, row)))
    }
  }

  test("bounds from two sides are asked for as one interval") {
    val both = FileFilter.and(
      Seq(
        FileFilter.Among("n", RangeSet.Integral.interval(3, Long.MaxValue)),
        FileFilter.IsNotNull("s"),
        FileFilter.Among("n", RangeSet.Integral.interval(Long.MinValue, 7))
      )
    )
    both match {
      case FileFilter.And(Seq(FileFilter.IsNotNull("s"), FileFilter.Among("n", keys: RangeSet.Integral))) =>
        assert(keys.lows.toSeq == Seq(3) && keys.highs.toSeq == Seq(7))
      case other => fail(other.toString)
    }
  }
}

/** Translated filters against what Catalyst itself says of the rows. */
class FilterTranslatorTest extends AnyFunSuite with ScalaCheckPropertyChecks {

  import FilterTranslatorTest._

  implicit override val generatorDrivenConfig: PropertyCheckConfiguration =
    // Files of thirty rows show what files of a hundred do.
    PropertyCheckConfiguration(minSuccessful = 1000, sizeRange = 30)

  private def selected(files: Seq[Seq[InternalRow]], filter: Expression): Seq[Boolean] = {
    val table = TableIndex.of("s3a://lake/t", indexed, files.map(entry))
    val found = table.select(new FilterTranslator(indexed, caseSensitive = false).translate(Seq(filter)))
    files.indices.map(found.get)
  }

  private def isTrue(filter: Expression, row: InternalRow): Boolean =
    BindReferences.bindReference(filter, columns).eval(row) == true

  test("a file with a row for which the filter is true is never dropped") {
    forAll(Gen.listOf(Gen.listOf(row)), conditions(Gen.oneOf(understood, others))) { (files, filter) =>
      files.zip(selected(files, filter)).foreach { case (rows, kept) =>
        if (rows.exists(isTrue(filter, _))) assert(kept, filter.sql)
      }
    }
  }

  test("a file of one row is dropped exactly if the filter is not true for it, also where it is null") {
    forAll(Gen.listOf(row), conditions(understood)) { (rows, filter) =>
      rows.zip(selected(rows.map(Seq(_)), filter)).foreach { case (row, kept) =>
        assert(kept == isTrue(filter, row), filter.sql)
      }
    }
  }

  test("a column is known by its name as the session spells names, unless two have it") {
    def translated(indexedNames: Seq[String], name: String, caseSensitive: Boolean): FileFilter = {
      val known = indexedNames.map(IndexedColumn(_, IntegerType))
      new FilterTranslator(known, caseSensitive).translate(Seq(IsNull(AttributeReference(name, IntegerType)())))
    }
    assert(translated(Seq("Day"), "dAY", caseSensitive = false) == FileFilter.IsNull("Day"))
    assert(translated(Seq("Day"), "dAY", caseSensitive = true) == FileFilter.Anything)
    assert(translated(Seq("Day", "day"), "day", caseSensitive = true) == FileFilter.IsNull("day"))
    assert(translated(Seq("Day", "day"), "day", caseSensitive = false) == FileFilter.Anything)
  }

  test("nothing is said of a column read as a type that its values in the index are not widened to without loss") {
    def translated(indexedType: DataType, readAs: DataType): FileFilter = {
      val known = Seq(IndexedColumn("c", indexedType))
      new FilterTranslator(known, caseSensitive = false).translate(Seq(IsNull(AttributeReference("c", readAs)())))
    }
    assert(translated(IntegerType, LongType) == FileFilter.IsNull("c"))
    assert(translated(LongType, IntegerType) == FileFilter.Anything)
    assert(translated(DecimalType(7, 2), DecimalType(9, 1)) == FileFilter.Anything)
  }

  private val types = Seq(
    ByteType,
    ShortType,
    IntegerType,
    LongType,
    DecimalType(5, 0),
    DecimalType(7, 2),
    DecimalType(20, 3),
    DateType,
    TimestampType,
    TimestampNTZType,
    StringType,
    BinaryType
  )

  /** Values of a type as Catalyst holds them, among them some that differ in what a narrower type cannot say. */
  private def samples(dataType: DataType): Seq[Any] = dataType match {
    case ByteType => Seq[Byte](-1, 0, 1, 100)
    case ShortType => Seq[Short](-1, 0, 1, 1000)
    case IntegerType => Seq(-1, 0, 1, 19723, 86400)
    case LongType => Seq(-1L, 0L, 1L, 86400L, 1704067200L)
    case fixed: DecimalType =>
      Seq("-1", "0", "1", "1.5", "1.25")
        .map(text => Decimal(BigDecimal(text)))
        .filter(_.changePrecision(fixed.precision, fixed.scale))
    case DateType => Seq(-1, 0, 1, 19723)
    // An hour that comes twice in Berlin, a day's beginning in two zones, and fractions of a second.
    case TimestampType | TimestampNTZType =>
      Seq(0L, 500000L, 999999L, 1000000L, 1704067200000000L, 1704067200500000L, 1729987200000000L, 1729990800000000L)
    case StringType => Seq("", "0", "1", "2024-01-01").map(UTF8String.fromString)
    case BinaryType => Seq("", "0", "1").map(_.getBytes)
    case other => throw new IllegalArgumentException(other.sql)
  }

  for (zone <- Seq("UTC", "Europe/Berlin"))
    test(s"nothing is said of a column that a cast changes, singly, doubly or there and back (time zone $zone)") {
      for {
        from <- types if Domain.of(from).isDefined
        through <- types
        to <- types
        mode <- Seq(EvalMode.LEGACY, EvalMode.TRY)
      } {
        val column = AttributeReference("c", from)()
        val once = Cast(column, through, Some(zone), mode)
        val casts = Seq(once, Cast(once, to, Some(zone), mode))
        for (cast <- casts if cast.checkInputDataTypes().isSuccess && cast.child.resolved) {
          val rows = samples(from)
          val seen = rows.map(value => cast.transform { case _: AttributeReference => Literal(value, from) }.eval(null))
          val filters = new FilterTranslator(Seq(IndexedColumn("c", from)), caseSensitive = false)
          for (constant <- seen.filter(_ != null).distinctBy(value => Literal(value, cast.dataType).sql))
            for (comparison <- Seq(EqualTo(_, _), LessThan(_, _), GreaterThanOrEqual(_, _))) {
              val filter = comparison(cast, Literal(constant, cast.dataType))
              val kept = filters.translate(Seq(filter))
              for (
                value <- rows
                if filter.transform { case _: AttributeReference => Literal(value, from) }.eval(null) == true
              ) {
                val table = TableIndex.of("s3a://lake/t", Seq(IndexedColumn("c", from)), Seq(entryOf(value)))
                assert(table.select(kept).get(0), s"${filter.sql} of a file that holds ${Literal(value, from).sql}")
              }
            }
        }
      }
    }

  private def entryOf(value: Any): FileEntry = {
    val only = Some(FilterTranslatorTest.encoded(value))
    FileEntry("", "f", 1, 1, 1, Map("c" -> ColumnEntry(Some(0), only, only, only.map(Seq(_)))))
  }

  test("a metadata column is not the data column of the same name") {
    val metadata = MetadataAttribute("file_size", LongType)
    val known = Seq(IndexedColumn("file_size", LongType))
    val filter = GreaterThan(metadata, Literal(5L))
    assert(new FilterTranslator(known, caseSensitive = false).translate(Seq(filter)) == FileFilter.Anything)
  }
}

object FilterTranslatorTest {

  private def attribute(name: String, dataType: DataType) = AttributeReference(name, dataType)()

  private val int = attribute("i", IntegerType)
  private val long = attribute("l", LongType)
  private val string = attribute("s", StringType)
  private val decimal = attribute("d", DecimalType(7, 2))
  private val date = attribute("t", DateType)
  private val flag = attribute("b", BooleanType)

  private val columns: Seq[AttributeReference] = Seq(int, long, string, decimal, date, flag)

  private val indexed: Seq[IndexedColumn] =
    columns.init.map(column => IndexedColumn(column.name.toUpperCase, column.dataType))

  private val ints = Gen.oneOf(-2, -1, 0, 1, 2, Int.MinValue, Int.MaxValue)
  private val longs = Gen.oneOf(-2L, -1L, 0L, 1L, 2L, Int.MaxValue + 1L, Long.MinValue, Long.MaxValue)
  private val strings =
    Gen.oneOf("", "a", "ab", "abc", "b", "é", "\uFFFD", "\uD83D\uDE00", "a%").map(UTF8String.fromString)
  private def decimals(precision: Int, scale: Int) =
    Gen.oneOf("-1.00", "0.00", "0.01", "1.00", "99999.99").map(text => Decimal(BigDecimal(text), precision, scale))

  private def valuesOf(dataType: DataType): Gen[Any] = dataType match {
    case IntegerType | DateType => ints
    case LongType => longs
    case StringType => strings
    case fixed: DecimalType => decimals(fixed.precision, fixed.scale)
    case BooleanType => Gen.oneOf(true, false)
    case other => throw new IllegalArgumentException(other.sql)
  }

  val row: Gen[InternalRow] = Gen
    .sequence[Seq[Any], Any](
      columns.map(column => Gen.frequency(4 -> valuesOf(column.dataType), 1 -> Gen.const(null)))
    )
    .map(InternalRow.fromSeq)

  def entry(rows: Seq[InternalRow]): FileEntry = FileEntry(
    "",
    "f",
    1,
    1,
    rows.length,
    indexed
      .zip(columns)
      .zipWithIndex
      .map { case ((column, read), i) =>
        val values = rows.map(row => Option(row.get(i, read.dataType))).map(_.map(encoded))
        val sorted = values.flatten.sorted(order)
        column.name -> ColumnEntry(Some(values.count(_.isEmpty)), sorted.headOption, sorted.lastOption, Some(sorted))
      }
      .toMap
  )

  def encoded(value: Any): Value = value match {
    case number: Byte => Value.Integral(number.toLong)
    case number: Short => Value.Integral(number.toLong)
    case bytes: Array[Byte] => Value.Bytes(bytes)
    case number: Int => Value.Integral(number.toLong)
    case whole: Long => Value.Integral(whole)
    case fixed: Decimal => Value.Integral(fixed.toUnscaledLong)
    case text: UTF8String => Value.Bytes(text.getBytes)
    case other => throw new IllegalArgumentException(other.toString)
  }

  private val order: Ordering[Value] = {
    case (Value.Integral(a), Value.Integral(b)) => a.compare(b)
    case (Value.Bytes(a), Value.Bytes(b)) => java.util.Arrays.compareUnsigned(a, b)
    case _ => throw new IllegalArgumentException
  }

  private def constants(dataType: DataType): Gen[Literal] =
    Gen.frequency(8 -> valuesOf(dataType), 1 -> Gen.const(null)).map(Literal(_, dataType))

  /** A column that is indexed, as it is or widened. */
  private val operand: Gen[Expression] = Gen.oneOf(
    Gen.oneOf(columns.init),
    Gen.const(Cast(int, LongType)),
    Gen.const(Cast(int, DecimalType(12, 2))),
    Gen.const(Cast(long, DecimalType(22, 2))),
    Gen.const(Cast(decimal, DecimalType(9, 3)))
  )

  private val comparison: Gen[Expression] = for {
    column <- operand
    constant <- constants(column.dataType)
    swapped <- Gen.oneOf(true, false)
    (left, right) = if (swapped) (constant, column) else (column, constant)
    compared <- Gen.oneOf(
      EqualTo(left, right),
      EqualNullSafe(left, right),
      LessThan(left, right),
      LessThanOrEqual(left, right),
      GreaterThan(left, right),
      GreaterThanOrEqual(left, right)
    )
  } yield compared

  private val membership: Gen[Expression] = for {
    column <- operand
    count <- Gen.choose(1, 4)
    values <- Gen.listOfN(count, constants(column.dataType))
    in <- Gen.oneOf(In(column, values), InSet(column, values.map(_.value).toSet))
  } yield in

  /** What is translated without loss. */
  val understood: Gen[Expression] = Gen.oneOf(
    comparison,
    comparison,
    membership,
    operand.map(IsNull(_)),
    operand.map(IsNotNull(_)),
    strings.map(start => StartsWith(string, Literal(start))),
    Gen.oneOf("a%", "%", "é%").map(pattern => new Like(string, Literal(pattern))),
    Gen.oneOf[Any](true, false, null).map(Literal(_, BooleanType))
  )

  private val narrowed = Cast(long, IntegerType, None, EvalMode.TRY)

  /** What is translated with loss, or not at all. */
  val others: Gen[Expression] = Gen.oneOf(
    Gen.oneOf("a_", "a%c", "_", "ab", "\\%", "a\\%", "\uFFFD%", "").map(pattern => new Like(string, Literal(pattern))),
    Gen.const(flag),
    Gen.const(In(int, Seq.empty)),
    Gen.const(EqualTo(int, narrowed)),
    ints.map(value => In(int, Seq(Literal(value), Add(int, Literal(0))))),
    ints.map(value => LessThan(narrowed, Literal(value))),
    strings.map(value => EqualTo(Cast(int, StringType), Literal(value))),
    strings.map(value => Contains(string, Literal(value)))
  )

  def conditions(leaves: Gen[Expression]): Gen[Expression] = Gen.recursive[Expression] { inner =>
    Gen.frequency(
      4 -> leaves,
      1 -> inner.map(Not(_)),
      1 -> Gen.zip(inner, inner).map { case (left, right) => And(left, right) },
      1 -> Gen.zip(inner, inner).map { case (left, right) => Or(left, right) }
    )
  }
}

/** Filters over two columns, `n` of numbers and `s` of bytes, and what they say of a row. */
object FilterModel {
  import FileFilter._

  /** A value of each column; either may be null. */
  type Row = (Option[Long], Option[Array[Byte]])

  val row: Gen[Row] = Gen.zip(Gen.option(Gen.oneOf(RangeSetTest.numbers)), Gen.option(Gen.oneOf(RangeSetTest.strings)))

  val numberLeaf: Gen[Among] = RangeSetTest.numberKeys.map(Among("n", _))
  val byteLeaf: Gen[Among] = RangeSetTest.byteKeys.map(Among("s", _))

  /** What may be asked of one column. */
  val questions: Gen[FileFilter] =
    Gen.oneOf(numberLeaf, byteLeaf, Gen.oneOf(IsNull("n"), IsNotNull("n"), IsNull("s"), IsNotNull("s")))

  def filters: Gen[FileFilter] = Gen.recursive[FileFilter] { inner =>
    Gen.frequency(
      6 -> questions,
      1 -> Gen.oneOf(Anything, Nothing),
      2 -> Gen.choose(0, 3).flatMap(Gen.listOfN(_, inner)).map(FileFilter.and),
      2 -> Gen.choose(0, 3).flatMap(Gen.listOfN(_, inner)).map(FileFilter.or)
    )
  }

  def matches(filter: FileFilter, row: Row): Boolean = filter match {
    case Anything => true
    case Nothing => false
    case Among("n", keys) => row._1.exists(RangeSetTest.contains(keys, _))
    case Among(_, keys) => row._2.exists(RangeSetTest.contains(keys, _))
    case IsNull("n") => row._1.isEmpty
    case IsNull(_) => row._2.isEmpty
    case IsNotNull("n") => row._1.isDefined
    case IsNotNull(_) => row._2.isDefined
    case And(parts) => parts.forall(matches(_, row))
    case Or(parts) => parts.exists(matches(_, row))
  }
}

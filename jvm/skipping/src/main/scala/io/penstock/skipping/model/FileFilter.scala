package io.penstock.skipping.model

import scala.util.Try

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.ScalarSubquery
import org.apache.spark.sql.types.StringType
import org.apache.spark.unsafe.types.UTF8String

/**
 * A condition on the rows of a file: the index answers whether the file may hold a row that meets it. Null does not, as
 * in a WHERE clause. Immutable.
 *
 * Comparisons, BETWEEN, IN, prefixes and their opposites all are [[FileFilter.Among]]: intervals of values. Negation is
 * carried down to the leaves when a filter is built, since "may not hold" is not the opposite of "may hold".
 */
sealed trait FileFilter

object FileFilter {

  /** The condition is unknown: every file may match. */
  case object Anything extends FileFilter

  /** No row matches, whatever it holds. */
  case object Nothing extends FileFilter

  /** The column has a value (so it is not null), and it is among these. */
  final case class Among(column: String, keys: RangeSet) extends FileFilter

  final case class IsNull(column: String) extends FileFilter

  final case class IsNotNull(column: String) extends FileFilter

  /** Built by [[and]]. */
  final case class And(parts: Seq[FileFilter]) extends FileFilter

  /** Built by [[or]]. */
  final case class Or(parts: Seq[FileFilter]) extends FileFilter

  def among(column: String, keys: RangeSet): FileFilter =
    if (keys.isEmpty) Nothing
    else if (keys.isEverything) IsNotNull(column)
    else Among(column, keys)

  /**
   * The conjunction, which intersects the sets of one column. That excludes more than testing each of them: a file that
   * holds 1 and 9 may hold a value above 3 and a value below 7, but none between them.
   */
  def and(parts: Seq[FileFilter]): FileFilter = {
    val flat = parts.flatMap {
      case And(inner) => inner
      case Anything => Seq.empty
      case part => Seq(part)
    }
    val merged = merge(flat)(_ intersect _)
    if (merged.contains(Nothing)) Nothing
    else if (merged.isEmpty) Anything
    else if (merged.length == 1) merged.head
    else And(merged)
  }

  def or(parts: Seq[FileFilter]): FileFilter = {
    val flat = parts.flatMap {
      case Or(inner) => inner
      case Nothing => Seq.empty
      case part => Seq(part)
    }
    val merged = merge(flat)(_ union _)
    if (merged.contains(Anything)) Anything
    else if (merged.isEmpty) Nothing
    else if (merged.length == 1) merged.head
    else Or(merged)
  }

  /** Merge the sets of each column and put them last, since the index takes the longest for these. */
  private def merge(parts: Seq[FileFilter])(combine: (RangeSet, RangeSet) => RangeSet): Seq[FileFilter] = {
    val keys = parts.collect { case Among(column, keys) => column -> keys }.groupMapReduce(_._1)(_._2)(combine)
    val others = parts.filter { case _: Among => false; case _ => true }
    others.distinct ++ keys.toSeq.sortBy(_._1).map { case (column, keys) => among(column, keys) }
  }
}

/**
 * The files that may hold a row for which a condition is true, and those that may hold one for which it is false. In
 * SQL's three-valued logic neither follows from the other, since the condition may be null.
 */
private[model] final case class ThreeValuedFilter(whereTrue: FileFilter, whereFalse: FileFilter) {

  def unary_! : ThreeValuedFilter = ThreeValuedFilter(whereFalse, whereTrue)

  def and(other: ThreeValuedFilter): ThreeValuedFilter =
    ThreeValuedFilter(FileFilter.and(Seq(whereTrue, other.whereTrue)), FileFilter.or(Seq(whereFalse, other.whereFalse)))

  def or(other: ThreeValuedFilter): ThreeValuedFilter = !(!this and !other)
}

private[model] object ThreeValuedFilter {
  import FileFilter._

  val Unknown: ThreeValuedFilter = ThreeValuedFilter(Anything, Anything)
  val Always: ThreeValuedFilter = ThreeValuedFilter(Anything, Nothing)
  val Never: ThreeValuedFilter = !Always
  val Null: ThreeValuedFilter = ThreeValuedFilter(Nothing, Nothing)

  def isNull(column: String): ThreeValuedFilter = ThreeValuedFilter(IsNull(column), IsNotNull(column))

  /** A test that is null where the column is. */
  def among(column: String, keys: RangeSet): ThreeValuedFilter =
    ThreeValuedFilter(FileFilter.among(column, keys), FileFilter.among(column, keys.complement))
}

/**
 * Translates Catalyst's filters on the columns of a file scan to [[FileFilter]]s. An expression that it does not know
 * becomes [[FileFilter.Anything]]. Stateless and thread-safe; never throws.
 *
 * @param columns
 *   the indexed columns
 * @param caseSensitive
 *   the query's `spark.sql.caseSensitive`
 */
class FilterTranslator(columns: Seq[IndexedColumn], caseSensitive: Boolean) {

  import FilterTranslator._

  /** Translate the conjunction of these filters. Scalar subqueries count once they have run. */
  def translate(filters: Seq[Expression]): FileFilter = FileFilter.and(filters.map(truth(_).whereTrue))

  private def truth(filter: Expression): ThreeValuedFilter = filter match {
    case And(left, right) => truth(left) and truth(right)
    case Or(left, right) => truth(left) or truth(right)
    case Not(child) => !truth(child)
    case IsNull(Indexed(column)) => ThreeValuedFilter.isNull(column.name)
    case IsNotNull(Indexed(column)) => !ThreeValuedFilter.isNull(column.name)
    case comparison: BinaryComparison => compared(comparison)
    case In(Indexed(column), values) => in(column, values)
    case set @ InSet(Indexed(column), values) => in(column, values.toSeq.map(Literal(_, set.child.dataType)))
    case StartsWith(Indexed(column), Constant(Literal(start: UTF8String, StringType))) => startsWith(column, start)
    case Like(Indexed(column), Constant(Literal(pattern: UTF8String, StringType)), escape) =>
      like(column, pattern.toString, escape)
    case Constant(Literal.TrueLiteral) => ThreeValuedFilter.Always
    case Constant(Literal.FalseLiteral) => ThreeValuedFilter.Never
    case Constant(Literal(null, _)) => ThreeValuedFilter.Null
    case _ => ThreeValuedFilter.Unknown
  }

  private def compared(comparison: BinaryComparison): ThreeValuedFilter = comparison match {
    case EqualTo(Indexed(column), Constant(value)) => test(column, value)(_.equalTo(_))
    case EqualTo(Constant(value), Indexed(column)) => test(column, value)(_.equalTo(_))
    case EqualNullSafe(Indexed(column), Constant(value)) => nullSafe(column, value)
    case EqualNullSafe(Constant(value), Indexed(column)) => nullSafe(column, value)
    case LessThan(Indexed(column), Constant(value)) => test(column, value)(_.lessThan(_))
    case LessThan(Constant(value), Indexed(column)) => test(column, value)(_.greaterThan(_))
    case LessThanOrEqual(Indexed(column), Constant(value)) => test(column, value)(_.atMost(_))
    case LessThanOrEqual(Constant(value), Indexed(column)) => test(column, value)(_.atLeast(_))
    case GreaterThan(Indexed(column), Constant(value)) => test(column, value)(_.greaterThan(_))
    case GreaterThan(Constant(value), Indexed(column)) => test(column, value)(_.lessThan(_))
    case GreaterThanOrEqual(Indexed(column), Constant(value)) => test(column, value)(_.atLeast(_))
    case GreaterThanOrEqual(Constant(value), Indexed(column)) => test(column, value)(_.atMost(_))
    case _ => ThreeValuedFilter.Unknown
  }

  /** A test that is null where the column or the constant is. */
  private def test(column: IndexedColumn, constant: Literal)(
      keys: (ValueEncoding, Any) => RangeSet
  ): ThreeValuedFilter =
    if (constant.value == null) ThreeValuedFilter.Null
    else
      ValueEncoding.of(constant.dataType, column.dataType).fold(ThreeValuedFilter.Unknown) { encoding =>
        ThreeValuedFilter.among(column.name, keys(encoding, constant.value))
      }

  private def nullSafe(column: IndexedColumn, constant: Literal): ThreeValuedFilter =
    if (constant.value == null) ThreeValuedFilter.isNull(column.name)
    else test(column, constant)(_.equalTo(_)) and !ThreeValuedFilter.isNull(column.name)

  private def in(column: IndexedColumn, values: Seq[Expression]): ThreeValuedFilter = {
    val (nulls, constants) = values.collect { case Constant(value) => value }.partition(_.value == null)
    // All at once: thousands of values, one by one, would take quadratic time.
    val tests = constants.groupBy(_.dataType).values.map { ofOneType =>
      test(column, ofOneType.head)((encoding, _) => encoding.points(ofOneType.iterator.map(_.value)))
    }
    val others = nulls.take(1).map(_ => ThreeValuedFilter.Null) ++
      Option.when(nulls.length + constants.length < values.length)(ThreeValuedFilter.Unknown)
    // A setting decides what an empty list means for a null.
    (tests ++ others).reduceOption(_ or _).getOrElse(ThreeValuedFilter(FileFilter.Nothing, FileFilter.Anything))
  }

  private def startsWith(column: IndexedColumn, start: UTF8String): ThreeValuedFilter =
    if (column.dataType == StringType) ThreeValuedFilter.among(column.name, RangeSet.Bytes.prefix(start.getBytes))
    else ThreeValuedFilter.Unknown

  private def like(column: IndexedColumn, pattern: String, escape: Char): ThreeValuedFilter = {
    // The replacement character also matches bytes that are no UTF-8.
    val start = UTF8String.fromString(pattern.takeWhile(char => !"%_\uFFFD".contains(char) && char != escape))
    val starts = startsWith(column, start)
    if (start.toString + "%" == pattern) starts
    else ThreeValuedFilter(starts.whereTrue, FileFilter.IsNotNull(column.name))
  }

  /**
   * An indexed column of the scan, possibly cast without loss: a value equals the cast column where it equals the
   * column.
   */
  private object Indexed {
    def unapply(expression: Expression): Option[IndexedColumn] = expression match {
      case cast: Cast if ValueEncoding.isLossless(cast.child.dataType, cast.dataType) => unapply(cast.child)
      // A metadata column may have a data column's name.
      case attribute: AttributeReference if !MetadataAttribute.isValid(attribute.metadata) =>
        named(attribute.name).filter(column => ValueEncoding.isLossless(column.dataType, attribute.dataType))
      case _ => None
    }
  }

  private def named(name: String): Option[IndexedColumn] = {
    val same = columns.filter(column => if (caseSensitive) column.name == name else column.name.equalsIgnoreCase(name))
    // Where case does not count, an exact match is no better than the others: Spark may read any of them.
    Option.when(same.length == 1)(same.head)
  }
}

object FilterTranslator {

  private object Constant {
    def unapply(expression: Expression): Option[Literal] = expression match {
      case literal: Literal => Some(literal)
      // `toLiteral` throws where the subquery has not run yet.
      case subquery: ScalarSubquery => Try(subquery.toLiteral).toOption
      case _ => None
    }
  }
}

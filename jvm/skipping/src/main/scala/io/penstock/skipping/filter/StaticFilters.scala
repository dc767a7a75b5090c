package io.penstock.skipping.filter

import scala.util.Try

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.ScalarSubquery
import org.apache.spark.sql.types.StringType
import org.apache.spark.unsafe.types.UTF8String

import io.penstock.skipping.index.IndexedColumn

/**
 * Catalyst's filters on the columns of a file scan as [[FileFilter]]s. What is not understood may be anything.
 *
 * @param columns
 *   those that are indexed
 * @param caseSensitive
 *   as the query's names were resolved (`spark.sql.caseSensitive`)
 */
class StaticFilters(columns: Seq[IndexedColumn], caseSensitive: Boolean) {

  import StaticFilters._

  /** Of filters that must all be true. Scalar subqueries say something once they have been run. */
  def translate(filters: Seq[Expression]): FileFilter = FileFilter.and(filters.map(truth(_).whereTrue))

  private def truth(filter: Expression): Truth = filter match {
    case And(left, right) => truth(left) and truth(right)
    case Or(left, right) => truth(left) or truth(right)
    case Not(child) => !truth(child)
    case IsNull(Indexed(column)) => Truth.isNull(column.name)
    case IsNotNull(Indexed(column)) => !Truth.isNull(column.name)
    case comparison: BinaryComparison => compared(comparison)
    case In(Indexed(column), values) => in(column, values)
    case set @ InSet(Indexed(column), values) => in(column, values.toSeq.map(Literal(_, set.child.dataType)))
    case StartsWith(Indexed(column), Constant(Literal(start: UTF8String, StringType))) => startsWith(column, start)
    case Like(Indexed(column), Constant(Literal(pattern: UTF8String, StringType)), escape) =>
      like(column, pattern.toString, escape)
    case Constant(Literal.TrueLiteral) => Truth.Always
    case Constant(Literal.FalseLiteral) => Truth.Never
    case Constant(Literal(null, _)) => Truth.Null
    case _ => Truth.Unknown
  }

  private def compared(comparison: BinaryComparison): Truth = comparison match {
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
    case _ => Truth.Unknown
  }

  /** A test that is null where the column or the constant is. */
  private def test(column: IndexedColumn, constant: Literal)(keys: (Encoding, Any) => Keys): Truth =
    if (constant.value == null) Truth.Null
    else
      Encoding.of(constant.dataType, column.dataType).fold(Truth.Unknown) { encoding =>
        Truth.among(column.name, keys(encoding, constant.value))
      }

  private def nullSafe(column: IndexedColumn, constant: Literal): Truth =
    if (constant.value == null) Truth.isNull(column.name)
    else test(column, constant)(_.equalTo(_)) and !Truth.isNull(column.name)

  private def in(column: IndexedColumn, values: Seq[Expression]): Truth = {
    val (nulls, constants) = values.collect { case Constant(value) => value }.partition(_.value == null)
    // All at once: thousands of values, one by one, would take quadratic time.
    val tests = constants.groupBy(_.dataType).values.map { ofOneType =>
      test(column, ofOneType.head)((encoding, _) => encoding.points(ofOneType.iterator.map(_.value)))
    }
    val others = nulls.take(1).map(_ => Truth.Null) ++
      Option.when(nulls.length + constants.length < values.length)(Truth.Unknown)
    // What an empty list says of a null is a matter of a setting.
    (tests ++ others).reduceOption(_ or _).getOrElse(Truth(FileFilter.Nothing, FileFilter.Anything))
  }

  private def startsWith(column: IndexedColumn, start: UTF8String): Truth =
    if (column.dataType == StringType) Truth.among(column.name, Keys.Bytes.prefix(start.getBytes)) else Truth.Unknown

  private def like(column: IndexedColumn, pattern: String, escape: Char): Truth = {
    // The replacement character also matches bytes that are no UTF-8.
    val start = UTF8String.fromString(pattern.takeWhile(char => !"%_\uFFFD".contains(char) && char != escape))
    val starts = startsWith(column, start)
    if (start.toString + "%" == pattern) starts else Truth(starts.whereTrue, FileFilter.IsNotNull(column.name))
  }

  /**
   * A column of the scan that is indexed, as it is or cast once or more without loss: what equals it equals the value
   * in the file.
   */
  private object Indexed {
    def unapply(expression: Expression): Option[IndexedColumn] = expression match {
      case cast: Cast if Encoding.isLossless(cast.child.dataType, cast.dataType) => unapply(cast.child)
      // A metadata column may have a data column's name.
      case attribute: AttributeReference if !MetadataAttribute.isValid(attribute.metadata) =>
        named(attribute.name).filter(column => Encoding.isLossless(column.dataType, attribute.dataType))
      case _ => None
    }
  }

  private def named(name: String): Option[IndexedColumn] = {
    val same = columns.filter(column => if (caseSensitive) column.name == name else column.name.equalsIgnoreCase(name))
    // One that is spelt exactly so is no better than the others where case does not count: which of them is read?
    Option.when(same.length == 1)(same.head)
  }
}

object StaticFilters {

  private object Constant {
    def unapply(expression: Expression): Option[Literal] = expression match {
      case literal: Literal => Some(literal)
      // Throws where it has not been run yet.
      case subquery: ScalarSubquery => Try(subquery.toLiteral).toOption
      case _ => None
    }
  }
}

package io.penstock.skipping.layout

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.types.{DataType, Decimal, IntegerType}
import org.apache.spark.unsafe.hash.Murmur3_x86_32
import org.apache.spark.unsafe.types.UTF8String

import io.penstock.skipping.index.Value

/**
 * A number whose hash sends a row to the task that writes the object it belongs to, and no other object.
 *
 * Only Spark 4.1 and later let a query name the task itself (`repartitionById`); a range partitioning would read the
 * table twice, the first time for a sample.
 *
 * @param children
 *   the partition columns, then those that ranges are cut by
 */
case class ObjectOf(children: Seq[Expression], partitionColumns: Int, placement: Placement, numbers: IndexedSeq[Int])
    extends Expression
    with CodegenFallback {

  override def nullable: Boolean = false

  override def dataType: DataType = IntegerType

  override def eval(row: InternalRow): Any = {
    val (partition, values) = ObjectOf.split(children.map(_.eval(row)), partitionColumns)
    numbers(placement.of(partition, values))
  }

  override protected def withNewChildrenInternal(children: IndexedSeq[Expression]): Expression =
    copy(children = children)
}

object ObjectOf {

  private val HashSeed = 42

  def apply(children: Seq[Expression], partitionColumns: Int, placement: Placement): ObjectOf =
    ObjectOf(children, partitionColumns, placement, hashedTo(placement.objects))

  /** For each of so many tasks a number that Spark's hash partitioning sends there. */
  private[layout] def hashedTo(tasks: Int): IndexedSeq[Int] = {
    val numbers = Array.fill(tasks)(-1)
    var missing = tasks
    var candidate = 0
    while (missing > 0) {
      val task = Math.floorMod(Murmur3_x86_32.hashInt(candidate, HashSeed), tasks)
      if (numbers(task) < 0) {
        numbers(task) = candidate
        missing -= 1
      }
      candidate += 1
    }
    numbers.toIndexedSeq
  }

  /** Catalyst's values of the partition columns, and of those that ranges are cut by in their domains. */
  def split(row: Seq[Any], partitionColumns: Int): (Seq[Any], Seq[Option[Value]]) = {
    val (partition, ranged) = row.splitAt(partitionColumns)
    (partition, ranged.map(Option(_).map(value)))
  }

  private def value(any: Any): Value = any match {
    case text: UTF8String => Value.Bytes(text.getBytes)
    case bytes: Array[Byte] => Value.Bytes(bytes)
    case decimal: Decimal => Value.Integral(decimal.toUnscaledLong)
    case number: Number => Value.Integral(number.longValue)
    case other => throw new IllegalArgumentException(s"ranges cannot be cut by $other")
  }
}

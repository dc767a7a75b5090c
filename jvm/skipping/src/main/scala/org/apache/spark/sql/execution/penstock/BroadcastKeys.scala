package org.apache.spark.sql.execution.penstock

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, Expression, UnsafeProjection}
import org.apache.spark.sql.execution.exchange.BroadcastExchangeExec
import org.apache.spark.sql.execution.joins.{HashJoin, HashedRelation, LongHashedRelation}

/**
 * The keys of a side that was broadcast for a hash join. Spark's own node for this, `SubqueryBroadcastExec`, needs a
 * session that is still usable, which it is no longer when the end of an application's last query is told.
 */
object BroadcastKeys {

  /**
   * @param keys
   *   the join's, on the side that was broadcast
   * @param place
   *   which of them
   * @return
   *   its values, as Catalyst has them; a value may come several times
   */
  def of(exchange: BroadcastExchangeExec, keys: Seq[Expression], place: Int): Iterator[Any] = {
    val relation = exchange.executeBroadcast[HashedRelation]().value
    val key = relation match {
      // Short keys share a long there.
      case _: LongHashedRelation => HashJoin.extractKeyExprAt(keys, place)
      case _ => BoundReference(place, keys(place).dataType, keys(place).nullable)
    }
    val projection = UnsafeProjection.create(key)
    relation.keys().map((row: InternalRow) => projection(row).get(0, key.dataType))
  }
}

package org.apache.spark.sql.execution.penstock

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, Expression, UnsafeProjection}
import org.apache.spark.sql.execution.exchange.BroadcastExchangeExec
import org.apache.spark.sql.execution.joins.{HashJoin, HashedRelation, LongHashedRelation}

/**
 * The keys of a side that was broadcast for a hash join. Spark's own node for this, `SubqueryBroadcastExec`, needs a
 * usable session, which an application no longer has when the event of its last query arrives.
 */
object BroadcastKeys {

  /**
   * @param keys
   *   the join's keys on the broadcast side
   * @param place
   *   the position of the needed key
   * @return
   *   its values, as Catalyst holds them; a value may occur several times
   */
  def of(exchange: BroadcastExchangeExec, keys: Seq[Expression], place: Int): Iterator[Any] = {
    val relation = exchange.executeBroadcast[HashedRelation]().value
    val key = relation match {
      // Such a relation packs short keys into one long.
      case _: LongHashedRelation => HashJoin.extractKeyExprAt(keys, place)
      case _ => BoundReference(place, keys(place).dataType, keys(place).nullable)
    }
    val projection = UnsafeProjection.create(key)
    relation.keys().map((row: InternalRow) => projection(row).get(0, key.dataType))
  }
}

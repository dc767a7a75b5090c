package io.penstock.workloads.merge

import java.math.BigDecimal
import java.time.LocalDate

import io.penstock.workloads.Mixed

/** A row of the table. `version` is that of the change which last wrote it, 0 for a row that was loaded. */
case class Order(
    id: Long,
    day: LocalDate,
    customer: Int,
    quantity: Int,
    price: BigDecimal,
    note: String,
    version: Int
)

/** A change of one order; `op` is `insert`, `update` or `delete`. A deletion carries the values that it deletes. */
case class Change(op: String, order: Order)

/**
 * The orders that are loaded, and what happens to them in three batches. Everything about an order follows from its id
 * and the seed, so that the table after each batch is known without it.
 *
 *   - `small`: a tenth of the newest hundredth is updated, a fiftieth of it deleted, and new orders arrive
 *   - `wide`: of all orders one in twenty is updated and one in two hundred deleted
 *   - `late`: a tenth of the oldest quarter is changed by versions that are older than those of `wide`, and old orders
 *     arrive that were never loaded
 */
case class Orders(rows: Long, seed: Long) {
  import Orders._

  /** The new orders of each batch that has some. */
  val arrivals: Long = math.max(1, rows / 1000)

  /** All ids that any order ever has are below this. */
  def ids: Long = rows + 2 * arrivals

  /** An update moves one loaded order in sixteen to another day. */
  def order(id: Long, version: Int): Order = {
    val salt = Mixed(Mixed(seed, id), version.toLong)
    def below(bound: Int, field: Int) = Mixed.below(bound, salt, field.toLong)
    // New orders stay where they arrive.
    val moved = version > 0 && id < rows && below(16, 0) == 0
    Order(
      id = id,
      day = FirstDay.plusDays(if (moved) below(Days, 1).toLong else ownDay(id)),
      customer = 1 + below(1000000, 2),
      quantity = 1 + below(100, 3),
      price = BigDecimal.valueOf(1L + below(9999999, 4), 2),
      note = Notes(below(Notes.size, 5)) + below(1000000, 6),
      version = version
    )
  }

  def change(batch: Batch, id: Long): Option[Change] = {
    val draw = Mixed.below(1000, Mixed(seed + batch.number, id), 0)
    def of(op: String) = Change(op, order(id, batch.version))
    def oneOf(updates: Int, deletes: Int) =
      if (draw < updates) Some(of("update")) else if (draw < updates + deletes) Some(of("delete")) else None
    batch match {
      case Small if id >= rows => Option.when(id < rows + arrivals)(of("insert"))
      case Small => if (id >= rows - math.max(1, rows / 100)) oneOf(100, 20) else None
      case Wide => if (id < rows + arrivals) oneOf(50, 5) else None
      case Late if id >= rows + arrivals => Some(of("insert"))
      case Late => if (id < rows / 4) oneOf(90, 10) else None
    }
  }

  /** The order after the loading and these batches; None where it does not exist. */
  def after(batches: Seq[Batch], id: Long): Option[Order] = {
    val loaded = Option.when(id < rows)(order(id, 0))
    batches.foldLeft(loaded) { (current, batch) =>
      (current, change(batch, id)) match {
        case (Some(order), Some(change)) if change.order.version > order.version =>
          if (change.op == "delete") None else Some(change.order)
        case (None, Some(change)) if change.op == "insert" => Some(change.order)
        case _ => current
      }
    }
  }

  // Loaded orders and those of `small` follow each other in time; those of `late` lie in the oldest quarter.
  private def ownDay(id: Long): Long =
    if (id < rows + arrivals) math.min(Days - 1L, (id.toDouble / rows * Days).toLong)
    else ((id - rows - arrivals).toDouble / arrivals * Days / 4).toLong
}

/** A batch of changes. `version` is what all its changes carry: one of an older version loses. */
sealed abstract class Batch(val name: String, val number: Int, val version: Int)

case object Small extends Batch("small", 1, 1)
case object Wide extends Batch("wide", 2, 3)
case object Late extends Batch("late", 3, 2)

object Orders {
  val batches: Seq[Batch] = Seq(Small, Wide, Late)

  private val FirstDay = LocalDate.of(2025, 1, 1)
  private val Days = 365
  private val Notes = IndexedSeq("", "gift ", "réservé n° ", "said 'urgent' ", "no returns ")
}

package io.penstock.workloads.merge

import org.scalatest.funsuite.AnyFunSuite

import io.penstock.workloads.LocalSpark

class MergeSuite extends AnyFunSuite with LocalSpark {

  private val orders = Orders(rows = 40000, seed = 7)

  private def changes(batch: Batch) = (0L until orders.ids).flatMap(orders.change(batch, _))

  test("each batch has changes of every kind that its name promises, and none elsewhere") {
    val kinds = Orders.batches.map(batch => batch.name -> changes(batch).groupBy(_.op).view.mapValues(_.size).toMap)
    val found = kinds.toMap
    assert(found("small").keySet == Set("insert", "update", "delete"))
    assert(found("wide").keySet == Set("update", "delete"))
    assert(found("late").keySet == Set("insert", "update", "delete"))
    assert(changes(Small).forall(_.order.id >= orders.rows - 400))
    assert(math.abs(found("wide")("update") - 2000) < 200)
    assert(changes(Late).filter(_.op != "insert").forall(_.order.id < 10000))
    assert(changes(Late).filter(_.op == "insert").forall(_.order.day.getMonthValue <= 4))
  }

  test("an update moves some orders to another day") {
    val moved = changes(Wide).filter(_.op == "update").count(one => one.order.day != orders.order(one.order.id, 0).day)
    assert(moved > 50 && moved < 250)
  }

  test("a late change loses against a newer version, and brings back nothing that was deleted") {
    val late = changes(Late).filter(_.op != "insert").map(_.order.id)
    val wide = Seq(Small, Wide)
    val newer = late.filter(id => orders.after(wide, id).exists(_.version == Wide.version))
    val deleted = late.filter(id => orders.after(wide, id).isEmpty)
    assert(newer.nonEmpty && deleted.nonEmpty)
    for (id <- newer ++ deleted) assert(orders.after(Orders.batches, id) == orders.after(wide, id))
    val applied = late.diff(newer ++ deleted)
    assert(applied.forall(id => orders.after(Orders.batches, id).forall(_.version == Late.version)))
    assert(applied.exists(id => orders.after(Orders.batches, id).isEmpty))
  }

  test("a missing, a doubled and a changed row are each found, and equal tables are equal in any order") {
    import spark.implicits._
    val few = (0L until 100L).map(orders.order(_, 0))
    val expected = few.toDF()
    assert(MergeVerdict.of(few.reverse.toDF(), expected).isEmpty)
    def verdict(found: Seq[Order]) = MergeVerdict.of(found.toDF(), expected).get
    assert(verdict(few.tail).startsWith("1 rows missing, 0 unexpected: - [0,"))
    assert(verdict(few :+ few.head).startsWith("0 rows missing, 1 unexpected: + [0,"))
    assert(verdict(few.updated(5, few(5).copy(quantity = 0))).startsWith("1 rows missing, 1 unexpected: - [5,"))
    assert(MergeVerdict.of(expected.drop("note"), expected).exists(_.startsWith("columns id, day,")))
  }
}

package io.penstock.cluster.scratch

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

class ScratchPlacementTest extends AnyFunSuite with ScalaCheckPropertyChecks {
  import ScratchPlacement._
  import ScratchPlacementTest._

  private val MiB = 1L << 20

  private def placed(placement: ScratchPlacement, names: ScratchName*): ScratchPlacement =
    names.foldLeft(placement) { (before, name) =>
      val (decision, after) = before.place(name)
      assert(decision == Memory, name)
      after
    }

  test("what is there and what is set aside never exceed the share, where files keep to what is usual of them") {
    forAll(Gen.chooseNum(0L, 64 * MiB), Gen.listOf(steps)) { (share, history) =>
      history.foldLeft((ScratchPlacement(share), Map.empty[ScratchName, Long])) { case ((placement, written), step) =>
        val (after, sizes) = step match {
          case Begin(name) if written.contains(name) => (placement, written)
          case Begin(name) =>
            placement.place(name) match {
              case (Memory, next) => (next, written.updated(name, 0L))
              case (Disk(_), next) => (next, written)
            }
          case Grow(name) =>
            (placement, written.updatedWith(name)(_.map(size => (size + 100000).min(name.kind.smallest))))
          case Remove(name) =>
            (written.get(name).fold(placement)(size => placement.gone(name, size)), written - name)
          case Look => (placement.looked(written.filter(_._2 > 0), Long.MaxValue), written)
        }
        assert(after.committed <= share)
        assert(sizes.valuesIterator.sum <= share)
        (after, sizes)
      }
    }
  }

  test("a closed memory takes no file, whatever becomes free") {
    forAll(Gen.listOf(steps)) { history =>
      val closed = history.foldLeft(ScratchPlacement(64 * MiB).close("it failed")) {
        case (placement, Begin(name)) =>
          val (decision, next) = placement.place(name)
          assert(decision == Disk("it failed"))
          next
        case (placement, Remove(name)) => placement.gone(name, 1)
        case (placement, _) => placement.looked(Map.empty, Long.MaxValue)
      }
      assert(closed.closed.contains("it failed"))
    }
  }

  test("the budget is used up: the next file goes to disk, and back to memory when a file is gone") {
    val full = placed(ScratchPlacement(2 * MiB), output(1), output(2))
    assert(full.place(output(3))._1 == Disk("its budget was used up"))
    assert(full.gone(output(1), 500).place(output(3))._1 == Memory)
  }

  test("a file that has stopped growing counts with its size, no more with what was set aside") {
    val written = placed(ScratchPlacement(4 * MiB), output(1)).looked(Map(output(1) -> 1000L), Long.MaxValue)
    assert(written.committed == MiB)
    assert(written.looked(Map(output(1) -> 1000L), Long.MaxValue).committed == 1000)
  }

  test("a file that paused and grows again counts as one that is being written") {
    val settled = placed(ScratchPlacement(4 * MiB), output(1))
      .looked(Map(output(1) -> 1000L), Long.MaxValue)
      .looked(Map(output(1) -> 1000L), Long.MaxValue)
    assert(settled.looked(Map(output(1) -> 2000L), Long.MaxValue).committed == MiB)
  }

  test("after a large file as much is set aside for the next of its kind, and for no other") {
    val large = placed(ScratchPlacement(64 * MiB), output(1)).gone(output(1), 40 * MiB)
    assert(placed(large, output(2)).committed == 40 * MiB)
    assert(placed(large, spill(1)).committed == Kind.Spill.smallest)
  }

  test("one large file is forgotten with time: the budget does not stay unused because of it") {
    val large = placed(ScratchPlacement(64 * MiB), output(0)).gone(output(0), 60 * MiB)
    val later = (1 to 40).foldLeft(large)((before, n) => placed(before, output(n)).gone(output(n), MiB))
    assert(placed(later, output(41)).committed < 2 * MiB)
  }

  test("a file system that others fill takes less than the share; its own files do not count against it twice") {
    val settled = (10 until 20).map(spill(_) -> MiB).toMap
    val crowded = ScratchPlacement(64 * MiB).looked(settled, 3 * MiB).looked(settled, 3 * MiB)
    val more = placed(crowded, spill(1), spill(2))
    assert(more.place(output(2))._1 == Memory)
    val nearlyFull = crowded.looked(settled, MiB / 2)
    assert(nearlyFull.place(output(2))._1 == Disk("the memory directory's file system is nearly full"))
    assert(crowded.looked(settled, -MiB).place(spill(1))._1 != Memory)
  }

  test("room for a file that nobody begins to write is given to others after a while") {
    val awaited = placed(ScratchPlacement(MiB), output(1))
    assert(awaited.place(spill(1))._1 != Memory)
    val waited = (0 to Patience).foldLeft(awaited)((before, _) => before.looked(Map.empty, Long.MaxValue))
    assert(waited.place(spill(1))._1 == Memory)
  }

  test("a budget of nothing takes nothing") {
    assert(ScratchPlacement(0).place(spill(1))._1 != Memory)
  }
}

private object ScratchPlacementTest {

  sealed trait Step
  final case class Begin(name: ScratchName) extends Step
  final case class Grow(name: ScratchName) extends Step
  final case class Remove(name: ScratchName) extends Step
  case object Look extends Step

  def output(map: Int): ScratchName = ScratchName.parse(s"shuffle_0_${map}_0.data").get
  def index(map: Int): ScratchName = ScratchName.parse(s"shuffle_0_${map}_0.index").get
  def spill(number: Int): ScratchName = ScratchName.parse(s"temp_local_$number").get

  private val names: Gen[ScratchName] =
    Gen.chooseNum(1, 60).flatMap(number => Gen.oneOf(output(number), index(number), spill(number)))

  val steps: Gen[Step] =
    Gen.frequency(
      4 -> names.map(Begin(_)),
      6 -> names.map(Grow(_)),
      2 -> names.map(Remove(_)),
      2 -> Gen.const(Look)
    )
}

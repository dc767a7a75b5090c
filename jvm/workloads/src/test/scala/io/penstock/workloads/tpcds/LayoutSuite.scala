package io.penstock.workloads.tpcds

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

class LayoutSuite extends AnyFunSuite with ScalaCheckPropertyChecks {

  private val megabyte = 1L << 20
  private val sizes = Gen.choose(0.0, 8.0).map(exponent => (megabyte * math.pow(10, exponent)).toLong)
  private val objects = Gen.choose(1L, 1024L).map(_ * megabyte)

  private def objectsOf(layout: Layout): Double = layout match {
    case Plain(_, files) => files
    case Ranged(_, files) => files
    case Gridded(_, dates, items, undated) => dates * items + undated
    case Partitioned(_, granularity, files, undated) =>
      granularity.partitionsPerYear * FactTable.yearsOfSales * files + undated
  }

  test("a small fact table is one object, not thousands of tiny ones") {
    assert(Layout.fact(10 * megabyte, 32 * megabyte) == Ranged(10 * megabyte, 1))
  }

  test("the granularity grows finer with the table, down to a day") {
    val chosen = Seq(10L, 100L, 500L, 2000L, 40000L).map(size => Layout.fact(size * megabyte, 32 * megabyte)).map {
      case Partitioned(_, granularity, _, _) => granularity.name
      case _ => "none"
    }
    assert(chosen == Seq("none", "year", "quarter", "month", "day"))
  }

  for (design <- Seq(Design.BySize, Design.ByRange))
    test(s"objects ${design.name} are neither tiny nor huge, whatever the sizes") {
      forAll(sizes, objects) { (bytes, objectSize) =>
        val average = bytes / objectsOf(Layout.fact(bytes, objectSize, design))
        assert(average <= objectSize * 1.51)
        if (bytes >= objectSize) assert(average >= objectSize * 0.3)
      }
    }

  test("by day, a partition is a day even of a table whose days do not fill their objects") {
    assert(Layout.fact(10 * megabyte, 32 * megabyte, Design.ByDay) == Partitioned(10 * megabyte, Granularity.Day, 1, 1))
    forAll(sizes, objects) { (bytes, objectSize) =>
      val Partitioned(_, granularity, files, _) = Layout.fact(bytes, objectSize, Design.ByDay): @unchecked
      assert(granularity == Granularity.Day)
      assert(files == 1 || bytes / 365.25 / FactTable.yearsOfSales / files <= objectSize * 1.51)
    }
  }

  test("inventory is cut by date and item where all tables are, and else stays in the order of its dates") {
    def inventory(design: Design) = LoadPlan.of(TpcdsTable.named("inventory").get, 1, megabyte, 4, design).layout
    val (cut, inOrder) = Design.all.partition(inventory(_).isInstanceOf[Gridded])
    assert(cut == Seq(Design.ByRange))
    assert(inOrder.map(inventory).forall(_.isInstanceOf[Plain]))
  }

  test("small objects cut the facts into hundreds and leave the dimensions whole") {
    for (design <- Design.all; table <- TpcdsTable.all) {
      val plan = LoadPlan.of(table, 1, 128 << 10, 4, design)
      val large = FactTable.named(table.name).isDefined || table.name == "inventory"
      val objects = objectsOf(plan.layout)
      assert(if (large) objects > 25 else objects == 1, s"${table.name} ${design.name}: ${plan.description}")
    }
  }

  test("a larger table never gets a coarser granularity") {
    def fineness(layout: Layout) = layout match {
      case Partitioned(_, granularity, _, _) => granularity.partitionsPerYear
      case _ => 0.0
    }
    forAll(sizes, sizes, objects) { (one, other, objectSize) =>
      val (small, large) = (math.min(one, other), math.max(one, other))
      assert(fineness(Layout.fact(small, objectSize)) <= fineness(Layout.fact(large, objectSize)))
    }
  }

  test("the partition column is the date key by day and a column of its own above") {
    val sales = FactTable.named("store_sales").get
    assert(sales.partitionColumn(Granularity.Day) == "ss_sold_date_sk")
    assert(sales.partitionColumn(Granularity.Month) == "ss_sold_month")
    assert(FactTable.all.map(_.partitionColumn(Granularity.Year)).distinct.size == 6)
  }
}

package io.penstock.workloads.etl

import java.nio.charset.StandardCharsets.UTF_8

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.workloads.testing.Properties

class SaleParserSuite extends AnyFunSuite with Properties {

  private val parser = new SaleParser
  private val sales = Sales(rows = 5000, badPerMillion = 200000, seed = 7)

  private def fault(line: String) = parser.parse(line.getBytes(UTF_8)).left.toOption.map(_.fault)

  private def fields(remark: String) = s"1|1999-01-02|3|4|5|6|7.89|$remark"

  test("a remark of any characters comes back as it was") {
    val pieces = Gen.oneOf("\"", "|", "x", "ß", "😀", "")
    val remarks = Gen.oneOf(Gen.listOf(pieces).map(_.mkString), Gen.asciiPrintableStr)
    forAll(remarks) { remark =>
      val parsed = parser.parse(fields(SaleFormat.field(remark)).getBytes(UTF_8))
      assert(parsed.map(_.remark) == Right(remark))
    }
  }

  test("every generated line is read as the sale it was made from, or rejected for the fault it was given") {
    for (row <- 0L until sales.rows) {
      val parsed = parser.parse(sales.line(row))
      assert(parsed.left.map(_.fault) == sales.fault(row).toLeft(sales.sale(row)), s"row $row")
    }
  }

  test("each fault has its name, whatever else is wrong in the line") {
    assert(fault("").contains(Fault.Columns))
    assert(fault(fields("x") + "|").contains(Fault.Columns))
    assert(fault(fields("\"x")).contains(Fault.Quote))
    assert(fault(fields("\"x\"y")).contains(Fault.Quote))
    assert(fault(fields("x").replace("7.89", "7.8")).contains(Fault.Number))
    assert(fault(fields("x").replace("7.89", "100000.00")).contains(Fault.Number))
    assert(fault(fields("x").replace("|6|", "|6000000000|")).contains(Fault.Number))
    assert(fault(fields("x").replace("1999-01-02", "1999-02-29")).contains(Fault.Date))
    assert(parser.parse(Array(0xff.toByte)).left.map(_.fault) == Left(Fault.Encoding))
    assert(fault(fields("")).isEmpty)
  }

  test("the spoilt lines are as many as stated, each fault in its turn") {
    forAll(Gen.choose(1L, 3000000L), Gen.choose(0, 1000000)) { (rows, perMillion) =>
      val sales = Sales(rows, perMillion, seed = 1)
      val from = math.max(0, rows - 300)
      val counted = (from until rows).flatMap(sales.fault)
      val before = Sales(from, perMillion, seed = 1)
      for (fault <- Fault.all) assert(counted.count(_ == fault) == sales.bad(fault) - before.bad(fault))
    }
  }

  test("a line is as long as the sizes of data sets are reckoned with") {
    val bytes = (0L until 2000000L by 100).map(row => Sales(2000000, 1000, 1).line(row).length + 1L)
    assert(math.abs(bytes.sum.toDouble / bytes.size - Sales.AverageLine) < 1)
  }
}

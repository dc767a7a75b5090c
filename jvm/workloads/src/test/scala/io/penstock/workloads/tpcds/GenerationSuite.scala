package io.penstock.workloads.tpcds

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

class GenerationSuite extends AnyFunSuite with ScalaCheckPropertyChecks {

  private val scale = 0.01
  private val scaling = TpcdsTable.session(scale).getScaling

  private def values(table: TpcdsTable, chunk: Chunk) =
    new GeneratedRows(table.generator, chunk, scale).map(_.getValues).toSeq

  test("chunks cover every row once, in order, in sizes that differ by one at most") {
    forAll(Gen.choose(1L, 10000000000L), Gen.choose(1, 2000)) { (rows, count) =>
      val chunks = Chunks.split(rows, count)
      assert(chunks.head.first == 1 && chunks.last.last == rows)
      assert(chunks.zip(chunks.tail).forall { case (one, next) => next.first == one.last + 1 })
      val sizes = chunks.map(chunk => chunk.last - chunk.first + 1)
      assert(sizes.max - sizes.min <= 1)
      assert(chunks.size == math.min(rows, count))
    }
  }

  for (table <- TpcdsTable.all if !table.generator.keepsHistory)
    test(s"${table.name} has the same rows however it is cut") {
      // Some tables have millions of rows at any scale: the first ones show as much.
      val rows = math.min(table.generatedRows(scaling), 1500L)
      val whole = values(table, Chunk(1, rows))
      forAll(Gen.choose(1, 40), minSuccessful(5)) { count =>
        assert(Chunks.split(rows, count).flatMap(values(table, _)) == whole)
      }
    }

  for (fact <- FactTable.all)
    test(s"${fact.name} decoded from its fields is what its text form says") {
      val table = TpcdsTable.named(fact.name).get
      val schema = table.schema(scaling)
      val fields = FactDecoder.of(table.generator, schema).get
      val text = new TextDecoder(schema)
      for (row <- new GeneratedRows(table.generator, Chunk(1, math.min(table.generatedRows(scaling), 1000L)), scale))
        assert(fields.decode(row).toSeq(schema) == text.decode(row).toSeq(schema))
    }

  test("columns and types are those of Spark's own TPC-DS schema, CHAR and VARCHAR as STRING") {
    for (table <- TpcdsTable.all) {
      val expected = SparkSchema
        .columns(table.name)
        .map { case (name, declared) => name -> declared.replaceAll("(VAR)?CHAR\\(\\d+\\)", "STRING") }
      assert(table.schema(scaling).fields.toSeq.map(field => field.name -> field.dataType.sql) == expected, table.name)
    }
  }

  test("order numbers are wide only where a scale has more orders than an INT can count") {
    val sales = TpcdsTable.named("store_sales").get
    def orderType(scale: Double) = sales.schema(TpcdsTable.session(scale).getScaling)("ss_ticket_number").dataType.sql
    assert(orderType(1000) == "INT")
    assert(orderType(10000) == "BIGINT")
  }
}

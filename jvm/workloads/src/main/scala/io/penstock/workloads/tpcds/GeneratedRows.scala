package io.penstock.workloads.tpcds

import scala.jdk.CollectionConverters._

import io.trino.tpcds.row.TableRow
import io.trino.tpcds.row.generator.RowGenerator
import io.trino.tpcds.{Session, Table}

/**
 * The rows of one chunk of a table.
 *
 * Every random stream of the generator can be moved to any row, so a chunk yields the same rows whatever the other
 * chunks are. The one exception are the tables that keep a history (a row repeats fields of the one before): those are
 * generated whole.
 */
class GeneratedRows(table: Table, chunk: Chunk, scale: Double) extends Iterator[TableRow] {

  // Parallelism stays at 1: the generator's own chunks never cut a table of less than a million orders.
  private val session: Session = TpcdsTable.session(scale).withTable(table)
  private val own = newGenerator(table)
  // Returns are generated with the sales they return, from the same streams.
  private val parent = if (table.isChild) newGenerator(table.getParent) else null
  private val child = if (table.hasChild) newGenerator(table.getChild) else null
  private val generators = Seq(own, parent, child).filter(_ != null)

  private var row = chunk.first
  private var pending: Iterator[TableRow] = Iterator.empty

  generators.foreach(_.skipRowsUntilStartingRowNumber(chunk.first))

  override def hasNext: Boolean = {
    while (!pending.hasNext && row <= chunk.last) advance()
    pending.hasNext
  }

  override def next(): TableRow = {
    if (!hasNext) throw new NoSuchElementException(s"${table.getName} ends at row ${chunk.last}")
    pending.next()
  }

  private def advance(): Unit = {
    val result = own.generateRowAndChildRows(row, session, parent, child)
    pending = result.getRowAndChildRows.iterator.asScala
    if (result.shouldEndRow) {
      generators.foreach(_.consumeRemainingSeedsForRow())
      row += 1
    }
  }

  private def newGenerator(of: Table): RowGenerator = of.getRowGeneratorClass.getDeclaredConstructor().newInstance()
}

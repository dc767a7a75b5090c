package io.penstock.workloads.reads

import scala.util.Random

/** What parts of an object a pattern reads, and which thread reads which: decided before anything is read. */
object Access {

  final case class Stretch(offset: Long, length: Int)

  /** Of `size` bytes, the part of thread `part` of `parts`: (from, until), cut at whole units. Together all of it. */
  def share(size: Long, unit: Long, part: Int, parts: Int): (Long, Long) = {
    def cut(number: Int) = if (number == parts) size else size / unit * number / parts * unit
    (cut(part), cut(part + 1))
  }

  /** Blocks in random order, none twice: one in `oneIn` of those there are, the thread's part of them. */
  def scattered(size: Long, block: Int, oneIn: Int, part: Int, parts: Int): IndexedSeq[Stretch] = {
    val blocks = (size / block).toInt
    val chosen = new Random(DataSet.Seed).shuffle((0 until blocks).toVector).take(math.max(1, blocks / oneIn))
    val (from, until) = share(chosen.size.toLong, 1, part, parts)
    chosen.slice(from.toInt, until.toInt).map(index => Stretch(index.toLong * block, block))
  }

  /** The column chunks that a query reads of each row group: of 16 equal ones those of `Columns`. */
  def columns(size: Long, part: Int, parts: Int): IndexedSeq[Seq[Stretch]] = {
    val group = math.min(RowGroup, size)
    val chunk = (group / Chunks).toInt
    val (from, until) = share(size / group, 1, part, parts)
    (from until until).map(number => Columns.map(column => Stretch(number * group + column.toLong * chunk, chunk)))
  }

  private val RowGroup = 32L << 20
  private val Chunks = 16

  /** Neighbours and gaps, as in a query that asks for some columns of many. */
  private val Columns = Seq(0, 1, 4, 9, 10, 15)
}

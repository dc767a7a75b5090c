package io.penstock.workloads.terasort

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, EOFException}
import java.lang.management.ManagementFactory

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

class SortingSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  import TestRecords._

  test("sorted records are those of a plain sort by key, records of one key in their old order") {
    forAll(someKeys, minSuccessful(60)) { keys =>
      val input = records(keys)
      val store = buffer(input)
      val sorted = written(new Gathered(store, RecordSort.order(store), 0, store.count))
      assert(sorted == input.map(_.toSeq).sortBy(key))
    }
  }

  test("many records of very few keys are not sorted one by one against each other") {
    val keys = Seq.tabulate(200000)(number => BigInt(number % 3))
    val store = buffer(records(keys))
    // Of this thread alone, whatever else the machine does.
    val threads = ManagementFactory.getThreadMXBean
    val started = threads.getCurrentThreadCpuTime
    val order = RecordSort.order(store)
    assert((threads.getCurrentThreadCpuTime - started) / 1e9 < 10)
    assert(order.map(number => number % 3).toSeq == order.map(_ % 3).sorted.toSeq)
  }

  test("each range's block has the records that a comparison with every bound gives it, in their old order") {
    forAll(someKeys, Gen.choose(1, 50), minSuccessful(60)) { (keys, count) =>
      val input = records(keys)
      val store = buffer(input)
      val ranges = KeyRanges.even(store, count)
      val sorted = input.map(_.toSeq).map(key).sorted
      val bounds = if (sorted.isEmpty) Nil else (1 until count).map(range => sorted(range * sorted.size / count))
      val expected = input.map(_.toSeq).groupBy(record => bounds.count(_ <= key(record)))
      val blocks = RangeBlocks.of(store, ranges).map { case (range, block) => range -> written(block) }.toMap
      assert(blocks == expected)
      assert(ranges.count == bounds.size + 1)
    }
  }

  test("ranges are even where keys are") {
    val random = new scala.util.Random(7)
    val store = buffer(records(Seq.fill(50000)(BigInt(80, random))))
    val sizes = RangeBlocks.of(store, KeyRanges.even(store, 20)).map(_._2.bytes / Record.Bytes).toSeq
    assert(sizes == Seq.fill(20)(2500))
  }

  test("a buffer gives back what was written to it, in whatever pieces") {
    // 3 segments.
    val bytes = new Array[Byte](70000 * Record.Bytes)
    new RecordGenerator(skewed = false).fill(0, 70000, bytes)
    val inPieces = new RecordBuffer
    bytes.grouped(12345).foreach(inPieces.sink.write(_))
    val fromStream = new RecordBuffer
    fromStream.append(new ByteArrayInputStream(bytes), bytes.length.toLong)
    for (store <- Seq(inPieces, fromStream)) {
      val out = new ByteArrayOutputStream
      new Gathered(store, Array.range(0, store.count), 0, store.count).writeTo(out)
      assert(out.toByteArray.sameElements(bytes))
      assert(Key(store.prefix(65537), store.tail(65537)) == Key.of(bytes, 65537 * Record.Bytes))
    }
    assertThrows[EOFException](new RecordBuffer().append(new ByteArrayInputStream(bytes), bytes.length + 1L))
  }

  test("blocks come out of the shuffle's streams as they went in, one after the other") {
    val store = buffer(records(Seq(5, 4, 3, 2, 1).map(BigInt(_))))
    val order = Array(4, 3, 2, 1, 0)
    val sent = Seq(7 -> new Gathered(store, order, 0, 2), 9 -> new Gathered(store, order, 2, 5))
    val serializer = new BlockSerializer().newInstance()
    val bytes = new ByteArrayOutputStream
    val out = serializer.serializeStream(bytes)
    for ((partition, block) <- sent) {
      out.writeKey(partition)
      out.writeValue(block)
    }
    out.close()
    val received = serializer
      .deserializeStream(new ByteArrayInputStream(bytes.toByteArray))
      .asKeyValueIterator
      .map { case (partition, block) => partition -> written(block.asInstanceOf[RecordBlock]) }
      .toSeq
    assert(received == sent.map { case (partition, block) => partition -> written(block) })
  }

  private def serialized(blocks: RecordBlock*): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    val out = new BlockSerializer().newInstance().serializeStream(bytes)
    for (block <- blocks) {
      out.writeKey(1)
      out.writeValue(block)
    }
    out.close()
    bytes.toByteArray
  }

  private def deserialized(bytes: Array[Byte]) =
    new BlockSerializer().newInstance().deserializeStream(new ByteArrayInputStream(bytes)).asKeyValueIterator

  private val block = {
    val store = buffer(records(Seq.tabulate(1000)(BigInt(_))))
    new Gathered(store, Array.range(0, store.count), 0, store.count)
  }

  test("a block that was cut short is an error, not fewer records") {
    val (_, cut) = deserialized(serialized(block).dropRight(1)).next()
    assertThrows[EOFException](written(cut.asInstanceOf[RecordBlock]))
  }

  test("a block that nobody read is an error, not a shift of all that follow") {
    val blocks = deserialized(serialized(block, block))
    blocks.next()
    assertThrows[IllegalStateException](blocks.hasNext)
  }

  test("a buffer that takes over the memory of a closed one has none of its records") {
    val first = buffer(records(Seq.fill(40000)(BigInt(7))))
    first.close()
    assert(first.count == 0)
    val second = buffer(records(Seq(BigInt(5))))
    assert(second.count == 1 && second.tail(0) == 5)
    second.append(new ByteArrayInputStream(new Array[Byte](Record.Bytes)), Record.Bytes.toLong)
    assert(second.count == 2 && second.tail(1) == 0)
  }

  test("samples are inside the data, spread over all of it, and not more than asked for") {
    val files = Gen.nonEmptyListOf(Gen.choose(1L, 500000L))
    forAll(files, Gen.choose(1L, 100000L)) { (sizes, wanted) =>
      val data = sizes.zipWithIndex.map { case (records, index) => Split(s"f$index", 0, records, records * 100) }
      val plan = Sampling.plan(data, wanted)
      val total = sizes.sum
      assert(plan.forall(part => part.records >= 1 && part.first >= 0))
      assert(plan.forall(part => part.first + part.records <= part.fileBytes / 100))
      assert(plan.map(_.records).sum <= math.max(wanted, 64L))
      if (total <= wanted) assert(plan == data)
      else {
        val starts = data.map(_.file).zip(sizes.scanLeft(0L)(_ + _)).toMap
        val places = plan.map(part => starts(part.file) + part.first)
        assert(places.head <= total / 64 && places.last + total / 32 + wanted >= total)
      }
    }
  }
}

package io.penstock.workloads.terasort

import java.io.ByteArrayOutputStream

import org.scalacheck.Gen

/** Records for tests: a key, and a number that tells records of one key apart. */
object TestRecords {

  def record(key: BigInt, number: Int): Array[Byte] = {
    val bytes = new Array[Byte](Record.Bytes)
    val digits = key.toByteArray.dropWhile(_ == 0)
    System.arraycopy(digits, 0, bytes, Record.KeyBytes - digits.length, digits.length)
    java.nio.ByteBuffer.wrap(bytes).putInt(Record.Bytes - 4, number)
    bytes
  }

  def records(keys: Seq[BigInt]): Seq[Array[Byte]] = keys.zipWithIndex.map { case (key, number) => record(key, number) }

  def buffer(records: Seq[Array[Byte]]): RecordBuffer = {
    val buffer = new RecordBuffer
    records.foreach(buffer.sink.write(_))
    buffer
  }

  def written(block: RecordBlock): Seq[Seq[Byte]] = {
    val out = new ByteArrayOutputStream
    block.writeTo(out)
    assert(out.size == block.bytes)
    out.toByteArray.toSeq.grouped(Record.Bytes).toSeq
  }

  def key(record: Seq[Byte]): BigInt = BigInt(1, record.take(Record.KeyBytes).toArray)

  private val all = (BigInt(1) << (8 * Record.KeyBytes)) - 1

  /** Random ones, few different ones, ones alike in the first or in the last bytes, and the ends of the range. */
  val someKeys: Gen[Seq[BigInt]] = {
    val random = Gen.choose(BigInt(0), all)
    val few = Gen.oneOf(Seq(BigInt(0), BigInt(1), all, all - 1, BigInt(1) << 16, (BigInt(1) << 16) - 1))
    val alikeAtFirst = Gen.choose(0, 1 << 20).map(low => (BigInt(0x4a696d47) << 48) + low)
    val alikeInTheMiddle =
      for (high <- Gen.choose(0, 3); low <- Gen.choose(0, 0xffff)) yield (BigInt(high) << 78) + low
    for {
      size <- Gen.oneOf(Gen.choose(0, 40), Gen.choose(500, 3000), Gen.choose(9000, 12000))
      keys <- Gen.listOfN(size, Gen.oneOf(random, few, alikeAtFirst, alikeInTheMiddle))
    } yield keys
  }
}

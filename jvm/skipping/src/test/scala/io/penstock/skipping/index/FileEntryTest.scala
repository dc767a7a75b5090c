package io.penstock.skipping.index

import java.io.ByteArrayOutputStream

import org.apache.parquet.column.values.bloomfilter.BlockSplitBloomFilter
import org.apache.parquet.io.api.Binary
import org.scalacheck.{Arbitrary, Gen}
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.model.Value
import io.penstock.skipping.testing.Properties

class FileEntryTest extends AnyFunSuite with Properties {

  private val values: Gen[Seq[Value]] = Gen.listOf(
    Gen.oneOf(
      Arbitrary.arbitrary[Long].map(Value.Integral(_)),
      Arbitrary.arbitrary[Array[Byte]].map(Value.Bytes(_))
    )
  )

  private def filled(values: Seq[Value], distinct: Long, falsePositives: Double): BloomFilter = {
    val bloom = BloomFilter.sized(distinct, falsePositives)
    values.foreach(bloom.put)
    bloom
  }

  test("a value that was put in is never denied, also after it was written and read") {
    forAll(values) { held =>
      val bloom = filled(held, held.length, 0.01)
      val read = BloomFilter.fromBytes(bloom.toBytes).get
      held.foreach(value => assert(bloom.mightContain(value) && read.mightContain(value)))
    }
  }

  test("the bits are those of Parquet's own filter") {
    forAll(values) { held =>
      val bloom = filled(held, 200, 0.01)
      val parquet = new BlockSplitBloomFilter(bloom.toBytes.length)
      held.foreach {
        case Value.Integral(number) => parquet.insertHash(parquet.hash(number))
        case Value.Bytes(bytes) => parquet.insertHash(parquet.hash(Binary.fromConstantByteArray(bytes)))
      }
      val bits = new ByteArrayOutputStream
      parquet.writeTo(bits)
      assert(bits.size == bloom.toBytes.length, "Parquet's sizes are powers of two")
      assert(bits.toByteArray.sameElements(bloom.toBytes))
    }
  }

  test("a filter of the size asked for says yes to about the share asked for of what is not in it") {
    for (share <- Seq(0.1, 0.03, 0.01)) {
      val bloom = filled((0L until 10000L).map(Value.Integral(_)), 10000, share)
      val wrong = (10000L until 110000L).count(number => bloom.mightContain(Value.Integral(number))) / 100000.0
      assert(wrong < 1.5 * share && wrong > share / 3, s"$wrong of others for $share")
    }
  }

  test("bytes that are no filter are none") {
    assert(BloomFilter.fromBytes(Array.emptyByteArray).isEmpty)
    assert(BloomFilter.fromBytes(new Array[Byte](33)).isEmpty)
  }
}

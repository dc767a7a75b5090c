package io.penstock.workloads.terasort

import java.io.{ByteArrayOutputStream, PrintStream}
import java.nio.file.{Files, Path}

import org.apache.hadoop.examples.terasort.GenSort
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

class GenerationSuite extends AnyFunSuite with ScalaCheckPropertyChecks {

  private def generated(first: Long, count: Int, skewed: Boolean = false): Array[Byte] = {
    val bytes = new Array[Byte](count * Record.Bytes)
    new RecordGenerator(skewed).fill(first, count, bytes)
    bytes
  }

  private def keys(bytes: Array[Byte]): Seq[Key] = bytes.indices.by(Record.Bytes).map(Key.of(bytes, _))

  /** The records and, as printed, the check sum of Hadoop's own generator. */
  private def hadoops(first: Long, count: Int): (Array[Byte], String) = {
    val file: Path = Files.createTempFile("gensort", "")
    val printed = new ByteArrayOutputStream
    val standardOutput = System.out
    System.setOut(new PrintStream(printed))
    try {
      GenSort.main(Array("-c", s"-b$first", count.toString, file.toString))
      (Files.readAllBytes(file), printed.toString.trim.split("\\s+").last)
    } finally {
      System.setOut(standardOutput)
      Files.delete(file)
    }
  }

  for (first <- Seq(0L, 1L, 12345L, 4294967295L, 99999999999L))
    test(s"records from number $first on are those of Hadoop's TeraGen, and so is their check sum") {
      val (bytes, checksum) = hadoops(first, 1000)
      val ours = generated(first, 1000)
      assert(ours.sameElements(bytes))
      assert(Tally.of(ours, ours.length).checksum.toString == checksum)
    }

  test("the first record's key spells what it is in the benchmark's documents") {
    assert(generated(0, 1).take(Record.KeyBytes).sameElements("JimGrayRIP".getBytes))
  }

  test("a record does not depend on where its task begins") {
    forAll(Gen.choose(0L, 1L << 40), Gen.choose(1, 200), Gen.choose(0, 199), Gen.oneOf(true, false)) {
      (first, count, before, skewed) =>
        val skipped = before % count
        val whole = generated(first, count, skewed)
        val late = generated(first + skipped, count - skipped, skewed)
        assert(whole.drop(skipped * Record.Bytes).sameElements(late))
    }
  }

  test("a jump to a record takes the generator where so many steps do") {
    forAll(Gen.choose(0, 5000)) { record =>
      val walked = new RandomNumbers(0)
      for (_ <- 0 until record) walked.advance()
      assert(RandomNumbers.at(record.toLong) == Unsigned128(walked.upper, walked.lower))
    }
  }

  test("skewed records differ from even ones in at most the first 48 bits of the key, and in those only as gensort's") {
    val first = 100000L
    val (even, skewed) = (generated(first, 5000), generated(first, 5000, skewed = true))
    val shared = RandomNumbers.at(17).high // 100 000 has 17 binary digits
    var replaced = 0
    for (index <- 0 until 5000; at = index * Record.Bytes) {
      val one = Key.of(even, at)
      val other = Key.of(skewed, at)
      val random = RandomNumbers.at(first + index)
      val bits = (random.low >>> 32).toInt & 0x3f
      assert(even.slice(at + 6, at + Record.Bytes).sameElements(skewed.slice(at + 6, at + Record.Bytes)))
      if (bits == 0 || bits > 48) assert(one == other)
      else {
        replaced += 1
        assert(other.prefix >>> (64 - bits) == shared >>> (64 - bits))
        assert(other.prefix << bits == one.prefix << bits)
      }
    }
    // 48 of 64 in the mean.
    assert(math.abs(replaced / 5000.0 - 0.75) < 0.03)
  }

  test("numbers of 128 bits are those of big integers") {
    val modulus = BigInt(1) << 128
    def big(one: Unsigned128) = BigInt(one.toString, 16)
    val numbers = for (high <- Gen.long; low <- Gen.long) yield Unsigned128(high, low)
    forAll(numbers, numbers) { (one, other) =>
      assert(big(one + other) == (big(one) + big(other)) % modulus)
      assert(big(one * other) == (big(one) * big(other)) % modulus)
    }
  }

  test("keys are in the order of their bytes") {
    val bytes = generated(0, 500)
    val byBytes = keys(bytes).sortWith((one, other) => BigInt(one.toString, 16) < BigInt(other.toString, 16))
    assert(keys(bytes).sortWith(_.compare(_) < 0) == byBytes)
  }
}

package io.penstock.workloads.terasort

import java.io.ByteArrayInputStream

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

class ValidationSuite extends AnyFunSuite with ScalaCheckPropertyChecks {

  private val generated = {
    val bytes = new Array[Byte](3000 * Record.Bytes)
    new RecordGenerator(skewed = false).fill(0, 3000, bytes)
    bytes.grouped(Record.Bytes).toVector
  }
  private val expected = SortManifest(3000, Tally.of(generated.toArray.flatten, 3000 * Record.Bytes).checksum.toString)
  private val sorted = generated.sortWith((one, other) => Key.of(one, 0).compare(Key.of(other, 0)) < 0)

  /** The names of the checks that fail, and what the order's says, where `files` are the output, read in splits. */
  private def wrong(files: Seq[Seq[Array[Byte]]], splitRecords: Int = 700): (Set[String], String) = {
    val stretches = for {
      (file, index) <- files.zipWithIndex
      (part, number) <- file.grouped(splitRecords).zipWithIndex
    } yield {
      val split = Split(s"part-r-0000$index", number.toLong * splitRecords, part.size.toLong, file.size * 100L)
      Stretch.read(split, new ByteArrayInputStream(part.toArray.flatten))
    }
    val tally = stretches.map(_.tally).foldLeft(Tally.Empty)(_ + _)
    val verdicts = SortVerdict.of(expected, tally, Stretch.disorder(stretches), Nil)
    (verdicts.filterNot(_.right).map(_.name).toSet, verdicts.find(_.name == "order").get.note)
  }

  private def inFiles(records: Seq[Array[Byte]], size: Int = 1000) = records.grouped(size).toSeq

  test("what was sorted is right, however it is cut into files and splits") {
    forAll(Gen.choose(1, 3000), Gen.choose(1, 3000), minSuccessful(20)) { (file, split) =>
      assert(wrong(inFiles(sorted, math.max(10, file)), math.max(10, split))._1.isEmpty)
    }
  }

  test("two records that changed places are found, with their file and number, wherever they are") {
    forAll(Gen.choose(0, 2998), minSuccessful(50)) { at =>
      val swapped = sorted.updated(at, sorted(at + 1)).updated(at + 1, sorted(at))
      val (checks, note) = wrong(inFiles(swapped))
      assert(checks == Set("order"))
      assert(note.contains(s"part-r-0000${(at + 1) / 1000}: record ${(at + 1) % 1000} "))
    }
  }

  test("a lost record is found") {
    forAll(Gen.choose(0, 2999))(at => assert(wrong(inFiles(sorted.patch(at, Nil, 1)))._1 == Set("count", "checksum")))
  }

  test("a duplicated record is found") {
    forAll(Gen.choose(0, 2999)) { at =>
      assert(wrong(inFiles(sorted.patch(at, Seq(sorted(at)), 0)))._1 == Set("count", "checksum"))
    }
  }

  test("one record lost and another one twice is found, though the count is right") {
    val changed = sorted.updated(17, sorted(16))
    assert(wrong(inFiles(changed))._1 == Set("checksum"))
  }

  test("a flipped bit behind the key is found") {
    forAll(Gen.choose(0, 2999), Gen.choose(Record.KeyBytes, Record.Bytes - 1), Gen.choose(0, 7)) { (at, byte, bit) =>
      val flipped = sorted(at).clone()
      flipped(byte) = (flipped(byte) ^ (1 << bit)).toByte
      assert(wrong(inFiles(sorted.updated(at, flipped)))._1 == Set("checksum"))
    }
  }

  test("files that overlap are found, at the start of the second") {
    val (checks, note) =
      wrong(Seq(sorted.take(1001), sorted.slice(1000, 1999).prepended(sorted(999)), sorted.drop(2000)))
    assert(checks.contains("order"))
    assert(note.contains("part-r-00001: record 0 "))
  }

  test("files in the wrong order are found, empty ones between them are no harm") {
    assert(wrong(Seq(sorted.drop(1500), Nil, sorted.take(1500)))._1 == Set("order"))
    assert(wrong(Seq(sorted.take(1500), Nil, sorted.drop(1500)))._1.isEmpty)
  }

  test("a file that ends within a record is wrong, though all whole records are there") {
    val verdicts = SortVerdict.of(expected, Tally(3000, Unsigned128.Zero), None, Seq("part-r-00001 has 150 bytes"))
    val count = verdicts.find(_.name == "count").get
    assert(!count.right && count.note.contains("part-r-00001 has 150 bytes"))
  }
}

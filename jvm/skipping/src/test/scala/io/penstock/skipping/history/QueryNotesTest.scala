package io.penstock.skipping.history

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.model.RangeSet
import io.penstock.skipping.testing.Properties

class QueryNotesTest extends AnyFunSuite with Properties {

  private val numbers = Gen.listOf(Gen.long).map(values => RangeSet.Integral.points(values.toArray): RangeSet)
  private val texts = Gen
    .listOf(Gen.alphaStr)
    .flatMap(texts => Gen.oneOf(true, false).map(all => (texts.map(_.getBytes).toArray, all)))
    .map { case (texts, all) => if (all) RangeSet.Bytes.points(texts).complement else RangeSet.Bytes.points(texts) }
  private val conditions = for {
    column <- Gen.alphaStr
    byJoin <- Gen.oneOf(true, false)
    keys <- Gen.option(Gen.oneOf(numbers, texts))
  } yield Condition(column, byJoin, keys)
  private val notes = for {
    table <- Gen.alphaStr
    asked <- Gen.listOf(conditions).map(_.take(4))
    scans <- Gen.posNum[Long]
    files <- Gen.posNum[Long]
    bytes <- Gen.posNum[Long]
  } yield ScanNote(table, asked, scans, files, bytes)

  /** What is written, and a clock that stands still until it is moved. */
  private class Written {
    var times = 0
    var content = Array.emptyByteArray
    var seconds = 0L
    val book = new NoteBook(bytes => { times += 1; content = bytes }, () => seconds * 1000000000L)
    def notes: Seq[ScanNote] = NoteFile.read(content)
  }

  private def note(table: String, bytes: Long) = ScanNote(table, Nil, 1, 2, bytes)

  test("notes are read as they were written: intervals without an end, no key at all, unseen keys") {
    forAll(Gen.listOf(notes), minSuccessful(25)) { notes =>
      val read = NoteFile.read(NoteFile.write(notes, dropped = 0))
      assert(read.map(_.copy(conditions = Nil)) == notes.map(_.copy(conditions = Nil)))
      // Sets of keys have no equality; their text has.
      assert(read.map(NoteFile.identity) == notes.map(NoteFile.identity))
    }
  }

  test("what is no note, or a later version's, is refused in words") {
    for (content <- Seq("", "{", "[]", """{"version": 2, "notes": []}"""))
      intercept[IllegalArgumentException](NoteFile.read(content.getBytes))
  }

  test("the same question is one note, however often it comes") {
    val written = new Written
    for (_ <- 1 to 3) written.book.add(Seq(note("a", 10), note("b", 1)))
    written.book.flush()
    assert(
      written.notes.map(note => (note.table, note.scans, note.files, note.bytes)) == Seq(
        ("a", 3, 6, 30),
        ("b", 3, 6, 3)
      )
    )
  }

  test("a driver that is killed loses what it noted in the last seconds, no more; many queries are not many writes") {
    val written = new Written
    for (_ <- 1 to 100) written.book.add(Seq(note("a", 1)))
    assert(written.times == 1)
    written.seconds = 11
    written.book.add(Seq(note("a", 1)))
    assert(written.times == 2 && written.notes.map(_.scans) == Seq(101))
    written.book.flush()
    assert(written.times == 2)
  }

  test("an application of many questions keeps those that read most") {
    val written = new Written
    written.book.add((1 to NoteBook.MostQuestions + 50).map(i => note(s"t$i", i.toLong)))
    written.book.flush()
    assert(written.notes.size == NoteBook.MostQuestions && written.notes.map(_.bytes).min == 51)
    assert(new String(written.content).contains(""""dropped":50"""))
  }

  test("a store that fails is asked again later, not by the next query, and nothing is lost") {
    var attempts = 0
    var seconds = 0L
    var content = Array.emptyByteArray
    val book = new NoteBook(
      bytes => {
        attempts += 1
        if (attempts == 1) throw new java.io.IOException("out of reach")
        content = bytes
      },
      () => seconds * 1000000000L
    )
    intercept[java.io.IOException](book.add(Seq(note("a", 1))))
    book.add(Seq(note("a", 1)))
    assert(attempts == 1)
    seconds = 11
    book.add(Seq(note("a", 1)))
    assert(NoteFile.read(content).map(_.scans) == Seq(3))
  }
}

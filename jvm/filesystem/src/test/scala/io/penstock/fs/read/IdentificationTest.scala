package io.penstock.fs.read

import org.scalatest.funsuite.AnyFunSuite

import io.penstock.fs.read.Identification.{Confirm, Given, Learn, Seen, decide}

class IdentificationTest extends AnyFunSuite {

  private val fresh = Some(KnownObject("seen", racy = false, confirmed = 1000))
  private val racy = Some(KnownObject("seen", racy = true, confirmed = 1000))

  test("the caller's entity tag is believed before any record") {
    for (record <- Seq(None, fresh, racy)) assert(decide(Some("told"), record, strict = false) == Given("told"))
  }

  test("a record is believed unless the object could have been overwritten in the same second") {
    assert(decide(None, fresh, strict = false, now = 1000) == Seen("seen"))
    assert(decide(None, racy, strict = false, now = 1000) == Confirm(None))
  }

  test("a record is believed for a while after the store has confirmed it, and not where the clock was set back") {
    for (now <- Seq(1000L, 1030L, 1060L))
      assert(decide(None, fresh, strict = false, now, maxStaleness = 60) == Seen("seen"))
    for (now <- Seq(1061L, 100000L, 999L))
      assert(decide(None, fresh, strict = false, now, maxStaleness = 60) == Confirm(None))
  }

  test("the first response tells what nobody knows") {
    for (strict <- Seq(true, false)) assert(decide(None, None, strict) == Learn)
  }

  test("where pages may be kept of what nobody knows, the store is asked for the version alone") {
    assert(decide(None, None, strict = false, mayBeKept = true) == Confirm(None))
  }

  test("strict believes nobody, and still holds the store to what the caller was told") {
    for (record <- Seq(None, fresh, racy)) assert(decide(Some("told"), record, strict = true) == Confirm(Some("told")))
    for (record <- Seq(fresh, racy)) assert(decide(None, record, strict = true) == Confirm(None))
  }
}

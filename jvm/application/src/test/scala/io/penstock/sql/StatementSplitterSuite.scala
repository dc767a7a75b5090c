package io.penstock.sql

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

class StatementSplitterSuite extends AnyFunSuite with ScalaCheckPropertyChecks {

  implicit override val generatorDrivenConfig: PropertyCheckConfiguration =
    PropertyCheckConfiguration(minSuccessful = 300)

  private val code = Gen.oneOf("SELECT", "1", "a", "-", "/", "*", "(", ")", "é")
  private val quoted =
    Gen.oneOf("';'", "'it''s;'", "'\\';'", "\";\"", "`;`", "'--'", "\"/*\"", "'a\nb'", "r';\\'", "R\"';\\\"")
  private val comment = Gen.oneOf("-- ; '\n", "/* ; ' */", "/* a /* ; */ b */", "/* \n; */")
  private val blank = Gen.oneOf(" ", "\n", "\t")

  /** Pieces kept apart by blanks, so that no two of them join into a comment; at least one of them is code. */
  private val statement = for {
    pieces <- Gen.nonEmptyListOf(Gen.oneOf(code, quoted, comment, blank))
    anchor <- code
  } yield (anchor +: pieces).mkString(" ")

  test("statements joined by semicolons come apart again, whatever is quoted or commented in them") {
    forAll(Gen.listOf(statement)) { statements =>
      assert(StatementSplitter.split(statements.mkString(";")) == statements.map(_.trim))
    }
  }

  test("nothing but blanks, comments and semicolons is no statement") {
    forAll(Gen.listOf(Gen.oneOf(comment, blank, Gen.const(";")))) { pieces =>
      assert(StatementSplitter.split(pieces.mkString(" ")).isEmpty)
    }
  }

  test("any text at all is split without failing, and no character of a statement is made up") {
    forAll { (script: String) =>
      assert(StatementSplitter.split(script).forall(script.contains))
    }
  }

  test("in a raw text a backslash escapes nothing, and only a token makes a text raw") {
    assert(StatementSplitter.split("""SELECT r'\'; SELECT R"\"; SELECT 2""").size == 3)
    assert(StatementSplitter.split("""SELECT bar'\'; ', 1r'\'; ', _R"\"; ", ér'\'; '""").size == 1)
    assert(StatementSplitter.split("""SELECT (r'\'),'a'r'\',`a`r'\'/**/r'\'=R'\'; SELECT 2""").size == 2)
    assert(StatementSplitter.split("""SELECT r '\'; '""").size == 1)
  }

  test("an unfinished quote or comment runs to the end") {
    assert(StatementSplitter.split("SELECT 'a; b") == Seq("SELECT 'a; b"))
    assert(StatementSplitter.split("SELECT 1 /* ; ") == Seq("SELECT 1 /* ;"))
    assert(StatementSplitter.split("SELECT 1; -- the end;") == Seq("SELECT 1"))
  }
}

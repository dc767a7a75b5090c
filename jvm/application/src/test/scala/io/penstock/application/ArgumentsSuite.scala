package io.penstock.application

import org.scalatest.funsuite.AnyFunSuite

class ArgumentsSuite extends AnyFunSuite {

  private def parsed(arguments: String*) = Arguments.parse(arguments, Set("rows", "size", "share"), "Some --rows N")

  private def refusal(work: => Any): String = intercept[UsageError](work).getMessage

  test("sizes are powers of 1024, whole numbers may be larger than an Int") {
    val options = parsed("--rows", "12000000000", "--size", "2g")
    assert(options.long("rows", 1, atLeast = 1) == 12000000000L)
    assert(options.size("size", "32m") == 2L << 30)
    assert(parsed().size("size", "32m") == 32L << 20)
  }

  test("what cannot be read is refused by the option's name and what it takes") {
    assert(refusal(parsed("--rows", "0").long("rows", 1, atLeast = 1)).contains("--rows takes a whole number"))
    assert(refusal(parsed("--size", "0").size("size", "32m")).contains("--size takes a size like 32m, not '0'"))
    assert(refusal(parsed("--size", "big").size("size", "32m")).contains("not 'big'"))
    val share = refusal(parsed("--share", "x").required("share", "a share from 0 to 1")(_.toDoubleOption))
    assert(share == "--share takes a share from 0 to 1, not 'x'.")
  }

  test("a missing, a misspelt and a valueless option have errors of their own") {
    assert(refusal(parsed().required("rows")).startsWith("--rows is missing"))
    assert(refusal(parsed("--row", "1")).startsWith("Unknown option '--row'"))
    assert(refusal(parsed("--rows")).startsWith("--rows needs a value"))
  }
}

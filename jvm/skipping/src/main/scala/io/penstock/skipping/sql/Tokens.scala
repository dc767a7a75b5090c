package io.penstock.skipping.sql

import scala.annotation.tailrec

import io.penstock.skipping.sql.Tokens._

/** What is wrong with a statement about skipping, and where (1-based line, 0-based column, as Spark counts). */
final case class SyntaxError(near: String, expected: String, line: Int, column: Int)

/**
 * The words of a statement, told apart from names as Spark does it: capitals do not matter, and whatever is in
 * backquotes is a name. Found as far as they are asked for: of Spark's own statements that is one word.
 */
private[sql] class Tokens(source: String) {

  private var waiting = Vector.empty[Token]
  private var position = 0

  def first: Token = peek(0)

  def second: Option[Token] = Option.when(!first.isEnd)(peek(1))

  def advance(): Unit = { first; waiting = waiting.tail }

  def is(word: String): Boolean = first.text.equalsIgnoreCase(word)

  def skip(word: String): Boolean = {
    val found = is(word)
    if (found) advance()
    found
  }

  def name(expected: String): String = {
    val found = first.name.getOrElse(refuse(expected))
    advance()
    found
  }

  def refuse(expected: String): Nothing = {
    val before = source.take(first.at)
    val near = if (first.isEnd) "end of input" else s"'${first.text}'"
    throw Refused(
      SyntaxError(near, expected, before.count(_ == '\n') + 1, before.length - before.lastIndexOf('\n') - 1)
    )
  }

  /** In brackets, with commas between. */
  def list[T](expected: String)(element: => T): Seq[T] = {
    if (!skip("(")) refuse(s"($expected, …)")
    val found = several(",")(element)
    if (!skip(")")) refuse(s"a comma and $expected, or )")
    found
  }

  /** A table's name, part by part. */
  def table(): Seq[String] = several(".")(name("the table: a name, or parquet.`path`"))

  def end(): Unit = {
    while (skip(";")) {}
    if (!first.isEnd) refuse("the end of the statement")
  }

  private def several[T](separator: String)(element: => T): Seq[T] = {
    @tailrec def more(found: Vector[T]): Vector[T] = {
      val next = found :+ element
      if (skip(separator)) more(next) else next
    }
    more(Vector.empty)
  }

  private def peek(index: Int): Token = {
    while (waiting.size <= index) waiting :+= next()
    waiting(index)
  }

  private def next(): Token = {
    val at = blankEnd(source, position)
    val end =
      if (at == source.length) at
      else if (isWord(source.charAt(at))) wordEnd(source, at)
      else if (source.charAt(at) == '`') quoteEnd(source, at).getOrElse(at + 1)
      else at + 1
    position = end
    val text = source.substring(at, end)
    val name =
      if (text.nonEmpty && isWord(text.head)) Some(text)
      else Option.when(text.length > 2)(text.drop(1).dropRight(1).replace("``", "`"))
    Token(text, name, at)
  }
}

private[sql] object Tokens {

  case class Refused(error: SyntaxError) extends Exception {
    override def fillInStackTrace(): Throwable = this
  }

  /** `name`: what it stands for as a name; None for punctuation, and at the end. */
  case class Token(text: String, name: Option[String], at: Int) {
    def isEnd: Boolean = text.isEmpty
  }

  // By hand: Java's regular expressions recurse, and a statement may begin with thousands of lines of comment.
  @tailrec private def blankEnd(source: String, from: Int): Int = {
    val end =
      if (from < source.length && source.charAt(from).isWhitespace) from + 1
      else if (source.startsWith("--", from)) endOf(source, "\n", from).getOrElse(source.length)
      else if (source.startsWith("/*", from)) endOf(source, "*/", from + 2).getOrElse(from)
      else from
    if (end == from) from else blankEnd(source, end)
  }

  private def endOf(source: String, what: String, from: Int): Option[Int] =
    Some(source.indexOf(what, from)).filter(_ >= 0).map(_ + what.length)

  private def isWord(letter: Char): Boolean = letter.isLetterOrDigit || letter == '_'

  private def wordEnd(source: String, from: Int): Int = {
    val end = source.indexWhere(letter => !isWord(letter), from)
    if (end < 0) source.length else end
  }

  /** None where the quote is not closed. */
  @tailrec private def quoteEnd(source: String, from: Int): Option[Int] = endOf(source, "`", from + 1) match {
    case Some(end) if source.startsWith("`", end) => quoteEnd(source, end)
    case end => end
  }
}

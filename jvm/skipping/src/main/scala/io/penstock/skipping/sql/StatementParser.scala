package io.penstock.skipping.sql

import scala.annotation.tailrec

/** What is wrong with a statement about skipping, and where (1-based line, 0-based column, as Spark counts). */
final case class SyntaxError(near: String, expected: String, line: Int, column: Int)

/**
 * {{{
 * BUILD SKIPPING INDEX ON [TABLE] t [COLUMNS (a, b)] [KINDS (minmax, values, bloom)]
 * {REFRESH | SHOW | DROP} SKIPPING INDEX ON [TABLE] t
 * }}}
 *
 * Words are told apart from names as Spark does it: capitals do not matter, and whatever is in backquotes is a name.
 */
object StatementParser {

  /** None where the statement is not about skipping: it is Spark's then. */
  def parse(text: String): Option[Either[SyntaxError, Statement]] = {
    val tokens = new Tokens(text)
    Verbs.find(tokens.skip).filter(_ => tokens.skip("SKIPPING") && tokens.skip("INDEX")).map { verb =>
      try Right(statement(verb, tokens))
      catch { case Refused(error) => Left(error) }
    }
  }

  private val Verbs = Seq("BUILD", "REFRESH", "SHOW", "DROP")

  private def statement(verb: String, tokens: Tokens): Statement = {
    if (!tokens.skip("ON")) tokens.refuse("ON and the table")
    // A table may be called “table”.
    if (tokens.is("TABLE") && tokens.second.exists(_.name.isDefined)) tokens.advance()
    val table = separated(tokens, ".", "the table: a name, or parquet.`path`")
    val made = verb match {
      case "BUILD" => build(table, tokens)
      case "REFRESH" => Statement.Refresh(table)
      case "SHOW" => Statement.Show(table)
      case "DROP" => Statement.Drop(table)
    }
    while (tokens.skip(";")) {}
    if (!tokens.first.isEnd) tokens.refuse("the end of the statement")
    made
  }

  private def build(table: Seq[String], tokens: Tokens): Statement = {
    val columns = Option.when(tokens.skip("COLUMNS"))(list(tokens, "a column"))
    val kinds = Option.when(tokens.skip("KINDS"))(list(tokens, "a kind: minmax, values or bloom"))
    if (kinds.isDefined && tokens.is("COLUMNS")) tokens.refuse("COLUMNS before KINDS")
    Statement.Build(table, columns, kinds)
  }

  private def list(tokens: Tokens, element: String): Seq[String] = {
    if (!tokens.skip("(")) tokens.refuse(s"($element, …)")
    val found = separated(tokens, ",", element)
    if (!tokens.skip(")")) tokens.refuse(s"a comma and $element, or )")
    found
  }

  private def separated(tokens: Tokens, separator: String, element: String): Seq[String] = {
    @tailrec def more(found: Vector[String]): Vector[String] = {
      val next = found :+ tokens.name(element)
      if (tokens.skip(separator)) more(next) else next
    }
    more(Vector.empty)
  }

  private case class Refused(error: SyntaxError) extends Exception {
    override def fillInStackTrace(): Throwable = this
  }

  /** `name`: what it stands for as a name; None for punctuation, and at the end. */
  private case class Token(text: String, name: Option[String], at: Int) {
    def isEnd: Boolean = text.isEmpty
  }

  /** Found as far as they are asked for: of Spark's own statements that is one word. */
  private class Tokens(source: String) {

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

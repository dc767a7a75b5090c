package io.penstock.skipping.sql

import java.lang.reflect.{InvocationHandler, InvocationTargetException, Method, Proxy}

import scala.annotation.tailrec
import scala.jdk.CollectionConverters._

import org.antlr.v4.runtime.misc.Pair
import org.antlr.v4.runtime.{CharStream, CharStreams, CommonToken, ParserRuleContext, TokenSource}
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.parser.{ParseException, ParserInterface}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.internal.VariableSubstitution

import io.penstock.skipping.layout.{Layout, RangeLevel}

/** The parser of statements about skipping, in front of another parser. Stateless and thread-safe. */
object SkippingParser {

  /**
   * The delegate with statements about skipping. It is a proxy, since the interface has different methods in each Spark
   * release, of which all others go to the delegate. From Spark 4.1 on a session calls `parsePlanWithParameters`, which
   * does not call `parsePlan`.
   *
   * A proxy can throw unchecked exceptions and those of its interface, [[ParseException]]; the delegate's other errors
   * of users (parameters of two styles) become one.
   */
  def around(delegate: ParserInterface): ParserInterface = {
    val handler: InvocationHandler = (_, method, arguments) =>
      own(method, arguments).getOrElse {
        try method.invoke(delegate, arguments: _*)
        catch { case e: InvocationTargetException => throw declared(e.getCause, arguments) }
      }
    Proxy
      .newProxyInstance(classOf[ParserInterface].getClassLoader, Array(classOf[ParserInterface]), handler)
      .asInstanceOf[ParserInterface]
  }

  private def declared(failure: Throwable, arguments: Array[AnyRef]): Throwable = failure match {
    case error: ParseException => error
    case mistake: AnalysisException if mistake.getCondition != null =>
      val text = Option(arguments).flatMap(_.headOption).fold("")(_.toString)
      val parameters = mistake.getMessageParameters.asScala.toMap
      new ParseException(mistake.getCondition, parameters, at(text, line = 1, column = 0))
    case other => other
  }

  private def own(method: Method, arguments: Array[AnyRef]): Option[LogicalPlan] =
    (method.getName, Option(arguments).flatMap(_.headOption)) match {
      case ("parsePlan" | "parsePlanWithParameters", Some(text: String)) => plan(text)
      case _ => None
    }

  private def plan(text: String): Option[LogicalPlan] =
    // Variables are substituted only in statements about skipping, since a value may be a secret of another statement.
    if (StatementParser.parse(text).isEmpty) None
    else
      StatementParser.parse(new VariableSubstitution().substitute(text)).map {
        case Right(statement) => command(statement)
        case Left(error) => throw refused(text, error)
      }

  private def command(statement: Statement): LogicalPlan = statement match {
    case Statement.Build(table, columns, kinds) => BuildIndex(table, columns, kinds)
    case Statement.Refresh(table) => RefreshIndex(table)
    case Statement.Show(table) => ShowIndex(table)
    case Statement.Drop(table) => DropIndex(table)
    case Statement.Advice(table) => ShowAdvice(table)
    case Statement.Rewrite(table, into, layout) => RewriteTable(table, into, layout)
  }

  private def refused(text: String, error: SyntaxError): ParseException = {
    val parameters = Map("error" -> error.near, "hint" -> s": expected ${error.expected}")
    new ParseException("PARSE_SYNTAX_ERROR", parameters, at(text, error.line, error.column))
  }

  private def at(text: String, line: Int, column: Int): ParserRuleContext = {
    val token = new CommonToken(new Pair[TokenSource, CharStream](null, CharStreams.fromString(text)), 0, 0, 0, 0)
    token.setLine(line)
    token.setCharPositionInLine(column)
    val context = new ParserRuleContext
    context.start = token
    context.stop = token
    context
  }
}

/** A statement about skipping; `table` has the parts of the table's name, outermost first. */
sealed trait Statement {
  def table: Seq[String]
}

object Statement {

  /** `columns`, `kinds`: None where they are to be chosen. */
  final case class Build(table: Seq[String], columns: Option[Seq[String]], kinds: Option[Seq[String]]) extends Statement

  final case class Refresh(table: Seq[String]) extends Statement

  final case class Show(table: Seq[String]) extends Statement

  final case class Drop(table: Seq[String]) extends Statement

  final case class Advice(table: Seq[String]) extends Statement

  /** `layout`: None for the advised one. */
  final case class Rewrite(table: Seq[String], into: Option[Seq[String]], layout: Option[Layout]) extends Statement
}

/**
 * The grammar of statements about skipping:
 * {{{
 * BUILD SKIPPING INDEX ON [TABLE] t [COLUMNS (a, b)] [KINDS (minmax, values, bloom)]
 * {REFRESH | SHOW | DROP} SKIPPING INDEX ON [TABLE] t
 * SHOW SKIPPING ADVICE ON [TABLE] t
 * REWRITE TABLE t [INTO u] {AS ADVISED | [PARTITIONED BY (a, b)] [RANGED BY (c, d INTO 8)]}
 * }}}
 */
object StatementParser {

  /** Parse a statement; None where it is not about skipping. */
  def parse(text: String): Option[Either[SyntaxError, Statement]] = {
    val tokens = new Tokens(text)
    kind(tokens).map { kind =>
      try {
        val statement = kind(tokens)
        tokens.end()
        Right(statement)
      } catch { case Tokens.Refused(error) => Left(error) }
    }
  }

  /** The parser of the rest, by the first words. */
  private def kind(tokens: Tokens): Option[Tokens => Statement] =
    if (tokens.skip("REWRITE")) Option.when(tokens.skip("TABLE"))(rewrite)
    else
      for {
        verb <- Verbs.find(tokens.skip)
        if tokens.skip("SKIPPING")
        subject <- Seq("INDEX", "ADVICE").find(tokens.skip)
        if subject == "INDEX" || verb == "SHOW"
      } yield about(verb, subject)(_)

  private val Verbs = Seq("BUILD", "REFRESH", "SHOW", "DROP")

  private def about(verb: String, subject: String)(tokens: Tokens): Statement = {
    if (!tokens.skip("ON")) tokens.refuse("ON and the table")
    // A table may be called “table”.
    if (tokens.is("TABLE") && tokens.second.exists(_.name.isDefined)) tokens.advance()
    val table = tokens.table()
    (verb, subject) match {
      case (_, "ADVICE") => Statement.Advice(table)
      case ("BUILD", _) => build(table, tokens)
      case ("REFRESH", _) => Statement.Refresh(table)
      case ("DROP", _) => Statement.Drop(table)
      case _ => Statement.Show(table)
    }
  }

  private def build(table: Seq[String], tokens: Tokens): Statement = {
    val columns = Option.when(tokens.skip("COLUMNS"))(list(tokens, "a column"))
    val kinds = Option.when(tokens.skip("KINDS"))(list(tokens, "a kind: minmax, values or bloom"))
    if (kinds.isDefined && tokens.is("COLUMNS")) tokens.refuse("COLUMNS before KINDS")
    Statement.Build(table, columns, kinds)
  }

  private def rewrite(tokens: Tokens): Statement = {
    val table = tokens.table()
    val into = Option.when(tokens.skip("INTO"))(tokens.table())
    if (tokens.skip("AS")) {
      if (!tokens.skip("ADVISED")) tokens.refuse("ADVISED")
      Statement.Rewrite(table, into, None)
    } else {
      val partitions = clause(tokens, "PARTITIONED")(list(tokens, "a column"))
      val ranges = clause(tokens, "RANGED")(tokens.list("a column")(range(tokens)))
      if (partitions.isEmpty && ranges.isEmpty) tokens.refuse("AS ADVISED, PARTITIONED BY or RANGED BY")
      if (ranges.isDefined && tokens.is("PARTITIONED")) tokens.refuse("PARTITIONED BY before RANGED BY")
      Statement.Rewrite(table, into, Some(Layout(partitions.getOrElse(Nil), ranges.getOrElse(Nil))))
    }
  }

  private def clause[T](tokens: Tokens, word: String)(rest: => T): Option[T] = Option.when(tokens.skip(word)) {
    if (!tokens.skip("BY")) tokens.refuse("BY")
    rest
  }

  private def range(tokens: Tokens): RangeLevel = {
    val column = tokens.name("a column")
    RangeLevel(column, Option.when(tokens.skip("INTO"))(count(tokens)))
  }

  private def count(tokens: Tokens): Int = {
    val found = tokens.first.text.toIntOption.filter(_ > 0).getOrElse(tokens.refuse("how many ranges"))
    tokens.advance()
    found
  }

  private def list(tokens: Tokens, element: String): Seq[String] = tokens.list(element)(tokens.name(element))
}

/** A syntax error of a statement about skipping, with its position (1-based line, 0-based column, as Spark counts). */
final case class SyntaxError(near: String, expected: String, line: Int, column: Int)

/**
 * The tokens of a statement by Spark's rules: words are case-insensitive, and text in backquotes is a name. They are
 * found lazily, so that Spark's own statements cost one word. For one thread.
 */
private[sql] class Tokens(source: String) {
  import Tokens._

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

  /** A list in brackets, with commas between its elements. */
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

  /** `name`: its value as a name; None for punctuation, and at the end. */
  case class Token(text: String, name: Option[String], at: Int) {
    def isEnd: Boolean = text.isEmpty
  }

  // No regular expression: Java's recurse, and a statement may begin with thousands of lines of comment.
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

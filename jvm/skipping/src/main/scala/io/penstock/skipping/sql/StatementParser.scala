package io.penstock.skipping.sql

import io.penstock.skipping.layout.{Layout, RangeLevel}

/**
 * {{{
 * BUILD SKIPPING INDEX ON [TABLE] t [COLUMNS (a, b)] [KINDS (minmax, values, bloom)]
 * {REFRESH | SHOW | DROP} SKIPPING INDEX ON [TABLE] t
 * SHOW SKIPPING ADVICE ON [TABLE] t
 * REWRITE TABLE t [INTO u] {AS ADVISED | [PARTITIONED BY (a, b)] [RANGED BY (c, d INTO 8)]}
 * }}}
 */
object StatementParser {

  /** None where the statement is not about skipping: it is Spark's then. */
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

  /** What the first words say that the rest is. */
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

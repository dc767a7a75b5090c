package io.penstock.sql

/** Cuts a script into its statements: at each `;` that is not inside quotes or a comment. */
object StatementSplitter {

  /** The statements without their `;`, trimmed; parts that hold nothing but blanks and comments are left out. */
  def split(script: String): Seq[String] = {
    val statements = Seq.newBuilder[String]
    var start = 0
    var position = 0
    var hasCode = false
    while (position < script.length) {
      val end = tokenEnd(script, position)
      val token = script.charAt(position)
      if (token == ';') {
        if (hasCode) statements += script.substring(start, position).trim
        start = end
        hasCode = false
      } else if (!isComment(script, position) && !token.isWhitespace) hasCode = true
      position = end
    }
    if (hasCode) statements += script.substring(start).trim
    statements.result()
  }

  /** Where the quoted text, the comment or the single character that begins at `position` ends. */
  private def tokenEnd(script: String, position: Int): Int = script.charAt(position) match {
    case quote @ ('\'' | '"') => quoteEnd(script, position + 1, quote, escapes = true)
    case '`' => quoteEnd(script, position + 1, '`', escapes = false)
    case '-' if script.startsWith("--", position) => orEnd(script, script.indexOf('\n', position))
    case '/' if script.startsWith("/*", position) => bracketEnd(script, position + 2)
    case _ => position + 1
  }

  private def isComment(script: String, position: Int): Boolean =
    script.startsWith("--", position) || script.startsWith("/*", position)

  // A doubled quote needs no care of its own: it reads as the end of one quoted text and the start of the next.
  @annotation.tailrec
  private def quoteEnd(script: String, position: Int, quote: Char, escapes: Boolean): Int =
    if (position >= script.length) script.length
    else if (escapes && script.charAt(position) == '\\') quoteEnd(script, position + 2, quote, escapes)
    else if (script.charAt(position) == quote) position + 1
    else quoteEnd(script, position + 1, quote, escapes)

  /** Spark's bracketed comments nest. */
  private def bracketEnd(script: String, from: Int): Int = {
    var depth = 1
    var position = from
    while (depth > 0 && position < script.length)
      if (script.startsWith("/*", position)) { depth += 1; position += 2 }
      else if (script.startsWith("*/", position)) { depth -= 1; position += 2 }
      else position += 1
    position
  }

  private def orEnd(script: String, index: Int): Int = if (index < 0) script.length else index
}

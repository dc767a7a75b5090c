package io.penstock.sql

/** What to tell a person about a statement that failed. */
object SqlErrors {

  /** The innermost cause that Spark itself worded, else the innermost cause: the outer ones say "stage failed". */
  def message(error: Throwable): String = {
    val causes = Iterator.iterate(error)(_.getCause).takeWhile(_ != null).take(32).toSeq
    val worded = causes.reverse.find(_.isInstanceOf[org.apache.spark.SparkThrowable])
    readable(worded.getOrElse(causes.last))
  }

  private def readable(error: Throwable): String = {
    val text = Option(error.getMessage).filter(_.nonEmpty).getOrElse(error.getClass.getSimpleName)
    // Analysis errors end with the logical plan, job failures with the driver's stack: neither helps a user.
    text.linesIterator
      .takeWhile(line => !line.startsWith("'") && !line.startsWith("Driver stacktrace"))
      .mkString("\n")
      .trim
  }
}

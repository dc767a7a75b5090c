package io.penstock.workloads

/** The main method of an application: the user's own mistakes end it with a sentence and code 2, not a stack trace. */
abstract class Application {

  /** Does the work and returns the exit code. */
  def run(arguments: Seq[String]): Int

  final def main(arguments: Array[String]): Unit = {
    val code =
      try run(arguments.toSeq)
      catch {
        case error: UsageError =>
          Console.err.println(error.getMessage)
          2
      }
    if (code != 0) sys.exit(code)
  }
}

package io.penstock.application

import org.apache.spark.network.util.JavaUtils

/** An invalid command line; `getMessage` names the problem and the correct form. */
class UsageError(message: String) extends Exception(message)

/** The options of an application, `--name value` each. */
class Arguments(values: Map[String, String], usage: String) {

  def required(name: String): String =
    values.getOrElse(name, throw new UsageError(s"--$name is missing.\nUsage: $usage"))

  def optional(name: String): Option[String] = values.get(name)

  def list(name: String): Option[Seq[String]] = values.get(name).map(_.split(',').map(_.trim).filter(_.nonEmpty).toSeq)

  def int(name: String, default: Int, atLeast: Int): Int =
    read(name, s"a whole number of at least $atLeast")(_.toIntOption.filter(_ >= atLeast)).getOrElse(default)

  def long(name: String, default: Long, atLeast: Long): Long =
    read(name, s"a whole number of at least $atLeast")(_.toLongOption.filter(_ >= atLeast)).getOrElse(default)

  /** In bytes; the user says `32m` or `1g`, in powers of 1024. */
  def size(name: String, default: String): Long =
    read(name, "a size like 32m")(inBytes).orElse(inBytes(default)).get

  def required[T](name: String, expected: String)(parse: String => Option[T]): T = {
    required(name)
    read(name, expected)(parse).get
  }

  /** The option's value, or none where it was not given; the error about an invalid value quotes `expected`. */
  def read[T](name: String, expected: String)(parse: String => Option[T]): Option[T] = values.get(name).map { text =>
    parse(text).getOrElse(throw new UsageError(s"--$name takes $expected, not '$text'."))
  }

  private def inBytes(text: String): Option[Long] =
    try Some(JavaUtils.byteStringAsBytes(text)).filter(_ > 0)
    catch { case _: NumberFormatException => None }
}

object Arguments {

  /** Refuses any option that is not in `known`, so that a misspelt one is never silently ignored. */
  def parse(arguments: Seq[String], known: Set[String], usage: String): Arguments = {
    def pairs(rest: List[String]): List[(String, String)] = rest match {
      case Nil => Nil
      case option :: value :: more if known(option.stripPrefix("--")) && option.startsWith("--") =>
        (option.stripPrefix("--") -> value) :: pairs(more)
      case option :: Nil if known(option.stripPrefix("--")) =>
        throw new UsageError(s"$option needs a value.\nUsage: $usage")
      case option :: _ => throw new UsageError(s"Unknown option '$option'.\nUsage: $usage")
    }
    new Arguments(pairs(arguments.toList).toMap, usage)
  }
}

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

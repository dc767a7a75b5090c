package io.penstock.workloads

/** What a user typed cannot be used; `getMessage` says what is wrong and how to say it right. */
class UsageError(message: String) extends Exception(message)

/** The options of an application, `--name value` each. */
class Arguments(values: Map[String, String], usage: String) {

  def required(name: String): String =
    values.getOrElse(name, throw new UsageError(s"--$name is missing.\nUsage: $usage"))

  def optional(name: String): Option[String] = values.get(name)

  def list(name: String): Option[Seq[String]] = values.get(name).map(_.split(',').map(_.trim).filter(_.nonEmpty).toSeq)

  def int(name: String, default: Int, atLeast: Int): Int = values.get(name).fold(default) { text =>
    text.toIntOption
      .filter(_ >= atLeast)
      .getOrElse(throw new UsageError(s"--$name takes a whole number of at least $atLeast, not '$text'."))
  }
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

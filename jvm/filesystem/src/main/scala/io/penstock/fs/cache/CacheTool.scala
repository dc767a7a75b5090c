package io.penstock.fs.cache

import java.io.{IOException, PrintStream}
import java.nio.file.Path

import scala.collection.immutable.ListMap

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.module.scala.DefaultScalaModule
import org.apache.hadoop.conf.Configuration

/**
 * Looks after this node's page cache from outside: `CacheTool COMMAND [-D name=value]…`, the settings being those of
 * `io.penstock.fs.CacheSettings`. Neither makes a cache where there is none nor changes its budget; others may use it
 * meanwhile.
 *
 * One JSON object a line, on standard output. The last line of each tier that is on has `tier` (`memory`, `disk`),
 * `directory` and `state`: `present`; `absent` (no cache was ever there); or `unreadable`, with `problem`. Where it is
 * present:
 *   - `status`: `budget`, `used` (bytes), `pages`, `evictions` (since the tier was made); reads the table's header only
 *   - `verify`: `pages`, `bytes` (sound ones); `damaged`, `orphans` (files dropped), `missing` (pages without a file);
 *     before it a line for each file dropped: `tier`, `dropped` (its path), `problem`
 *   - `drop [s3a://bucket/prefix]`: `pages`, `bytes` that were dropped; without a prefix all that is there
 *
 * Exit codes: 0; 1 a tier is unreadable; 2 the command or a setting makes no sense, said on standard error.
 */
object CacheTool {

  private val mapper = new ObjectMapper().registerModule(DefaultScalaModule)

  def main(arguments: Array[String]): Unit = sys.exit(run(arguments.toList, System.out, System.err))

  private[cache] def run(arguments: List[String], out: PrintStream, err: PrintStream): Int =
    (for {
      parsed <- parse(arguments)
      (command, conf) = parsed
      tiers <- TierSettings.from(conf)
    } yield tiers.map(lines(_, command, out)).forall(identity)) match {
      case Right(readable) => if (readable) 0 else 1
      case Left(problem) =>
        err.println(problem)
        2
    }

  private sealed trait Command
  private case object Status extends Command
  private case object Verify extends Command
  private final case class Drop(matches: PageLabel => Boolean) extends Command

  private def parse(arguments: List[String]): Either[String, (Command, Configuration)] = {
    val conf = new Configuration()
    def words(remaining: List[String]): List[String] = remaining match {
      case "-D" :: setting :: more if setting.contains("=") =>
        conf.set(setting.takeWhile(_ != '='), setting.dropWhile(_ != '=').drop(1))
        words(more)
      case word :: more => word :: words(more)
      case Nil => Nil
    }
    words(arguments) match {
      case List("status") => Right(Status -> conf)
      case List("verify") => Right(Verify -> conf)
      case List("drop") => Right(Drop(_ => true) -> conf)
      case List("drop", prefix) => prefixOf(prefix).map(Drop(_) -> conf)
      case other => Left(s"'${other.mkString(" ")}' is no command: status, verify, or drop [s3a://bucket/prefix]")
    }
  }

  /** Whole names only: `s3a://lake/sales` is not a prefix of `s3a://lake/sales2`. */
  private[cache] def prefixOf(text: String): Either[String, PageLabel => Boolean] = {
    val path = text.replaceFirst("^[a-z0-9]+://", "")
    val bucket = path.takeWhile(_ != '/')
    val prefix = path.drop(bucket.length + 1).stripSuffix("/")
    if (bucket.isEmpty) Left(s"'$text' names no bucket: write s3a://bucket or s3a://bucket/prefix")
    else
      Right(label =>
        label.of.bucket == bucket &&
          (prefix.isEmpty || label.of.key == prefix || label.of.key.startsWith(prefix + "/"))
      )
  }

  /** Prints a tier's lines; false if it is unreadable. */
  private def lines(tier: TierSettings, command: Command, out: PrintStream): Boolean = {
    val about = ListMap[String, Any]("tier" -> tier.name, "directory" -> tier.directory.toString)
    def print(line: Map[String, Any]): Unit = out.println(mapper.writeValueAsString(line))
    def dropped(file: Path, problem: String): Unit =
      print(ListMap("tier" -> tier.name, "dropped" -> file.toString, "problem" -> problem))
    try {
      TierDirectory.existing(tier.directory) match {
        case None => print(about + ("state" -> "absent"))
        case Some(directory) => print(about + ("state" -> "present") ++ carryOut(directory, command, dropped))
      }
      true
    } catch {
      case failure @ (_: IOException | _: InternalError) =>
        print(about + ("state" -> "unreadable") + ("problem" -> failure.getMessage))
        false
    }
  }

  private def carryOut(
      directory: TierDirectory,
      command: Command,
      dropped: (Path, String) => Unit
  ): ListMap[String, Any] = {
    val table = new PageTable(directory.words, () => (System.currentTimeMillis / 1000).toInt)
    val audit = new TierAudit(directory, table, () => System.currentTimeMillis)
    command match {
      case Status =>
        val now = table.status
        ListMap("budget" -> now.budget, "used" -> now.used, "pages" -> now.pages, "evictions" -> now.evictions)
      case Verify =>
        val found = audit.verify(dropped)
        ListMap(
          "pages" -> found.pages,
          "bytes" -> found.bytes,
          "damaged" -> found.damaged,
          "orphans" -> found.orphans,
          "missing" -> found.missing
        )
      case Drop(matches) =>
        val gone = audit.drop(matches)
        ListMap("pages" -> gone.pages, "bytes" -> gone.bytes)
    }
  }
}

package io.penstock.fs.cache

import java.io.{IOException, PrintStream}
import java.nio.ByteBuffer
import java.nio.file.{Files, NoSuchFileException, Path}

import scala.collection.immutable.ListMap

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.module.scala.DefaultScalaModule
import org.apache.hadoop.conf.Configuration

/**
 * Looks after this node's page cache from outside: `CacheAdmin COMMAND [-D name=value]…`, the settings being those of
 * `io.penstock.fs.cache.CacheSettings`. Neither makes a cache where there is none nor changes its budget; others may
 * use it meanwhile.
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
object CacheAdmin {

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

/**
 * Goes through the files of a tier, whatever its table says, while others may be using it.
 *
 * @param clock
 *   milliseconds since the epoch
 */
private[cache] final class TierAudit(directory: TierDirectory, table: PageTable, clock: () => Long) {
  import TierAudit._

  /**
   * Reads every byte, drops what is damaged or belongs to no slot, empties slots whose file is gone, and counts anew.
   *
   * @param dropped
   *   receives each file
   */
  def verify(dropped: (Path, String) => Unit): Verified = {
    var result = Verified(0, 0, 0, 0, 0)
    for (file <- directory.pageFiles)
      stateOf(file) match {
        case Sound(bytes) => result = result.copy(pages = result.pages + 1, bytes = result.bytes + bytes)
        case Damaged(why) =>
          drop(file)
          dropped(file, why)
          result = result.copy(damaged = result.damaged + 1)
        case Orphan =>
          drop(file)
          dropped(file, "no slot of the page table stands for it")
          result = result.copy(orphans = result.orphans + 1)
        case InWork => ()
      }
    for (key <- table.presentKeys if !Files.exists(directory.pathOf(key))) {
      table.take(key).foreach(table.remove(_, evicted = false))
      result = result.copy(missing = result.missing + 1)
    }
    table.recount()
    result
  }

  /** Drops the pages whose label matches, and files that have none: nobody could read them. */
  def drop(matches: PageLabel => Boolean): Dropped = {
    var result = Dropped(0, 0)
    for (file <- directory.pageFiles)
      try
        if (mapped(file)(PageFile.trailerIn).forall(trailer => matches(trailer.label))) {
          val bytes = Files.size(file)
          drop(file)
          result = Dropped(result.pages + 1, result.bytes + bytes)
        }
      catch { case _: NoSuchFileException => () }
    result
  }

  private def drop(file: Path): Unit = {
    val victim = TierDirectory.keyOf(file).flatMap(table.take(_))
    Files.deleteIfExists(file)
    victim.foreach(table.remove(_, evicted = false))
  }

  private def stateOf(file: Path): State =
    try
      if (isListed(file)) contentOf(file)
      else if (PrivateFiles.modified(file).exists(_ < clock() - EvictionPolicy.Abandoned * 1000L)) Orphan
      else InWork
    catch { case _: NoSuchFileException => InWork }

  private def isListed(file: Path): Boolean =
    TierDirectory.keyOf(file).exists(table.find(_) != PageTable.Nowhere)

  private def contentOf(file: Path): State = mapped(file) { memory =>
    val trailer = PageFile.trailerIn(memory)
    if (!TierDirectory.keyOf(file).contains(trailer.label.key)) Damaged("it holds another page than its name says")
    else {
      val blocks = trailer.checksums.indices.count { block =>
        val from = block * PageFile.ChecksumBlock
        val bytes = new Array[Byte](math.min(PageFile.ChecksumBlock, trailer.length - from))
        memory.get(from, bytes)
        PageFile.checksum(ByteBuffer.wrap(bytes)) != trailer.checksums(block)
      }
      if (blocks == 0) Sound(trailer.length.toLong) else Damaged(s"$blocks of its checksums are wrong")
    }
  } match {
    case Right(state) => state
    case Left(why) => Damaged(why)
  }

  /** Left says how the file is damaged. */
  private def mapped[A](file: Path)(use: ByteBuffer => A): Either[String, A] =
    try {
      val memory = PageFile.map(file)
      try {
        val result = use(memory)
        Faults.surface()
        Right(result)
      } finally Unmapping.unmap(memory)
    } catch {
      case missing: NoSuchFileException => throw missing
      case damage @ (_: IOException | _: InternalError) => Left(damage.getMessage)
    }
}

private[cache] object TierAudit {

  private sealed trait State
  private final case class Sound(bytes: Long) extends State
  private final case class Damaged(why: String) extends State
  private case object Orphan extends State

  /** Being written or removed right now. */
  private case object InWork extends State

  /** Sound pages and their bytes; files and slots that were dropped. */
  final case class Verified(pages: Long, bytes: Long, damaged: Long, orphans: Long, missing: Long)

  /** Files and their bytes. */
  final case class Dropped(pages: Long, bytes: Long)
}

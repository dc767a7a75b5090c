package io.penstock.skipping.fuzz

import java.nio.file.attribute.FileTime
import java.nio.file.{Files, Path, StandardCopyOption}
import java.util.concurrent.{Callable, ExecutionException, FutureTask, TimeUnit, TimeoutException}

import scala.collection.mutable
import scala.concurrent.duration.FiniteDuration
import scala.jdk.CollectionConverters._
import scala.util.Try

import org.apache.hadoop.fs.FileUtil
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
import org.apache.spark.sql.{Row, SparkSession}
import org.scalatest.Assertions

import io.penstock.skipping.model.SkippingSettings.Prefix

/**
 * Runs worlds: each some dozens of queries, with changes to the tables between them.
 *
 * @param make
 *   a world of a seed in a directory of its own
 */
final class Fuzzer(session: SparkSession, directory: Path, make: (Long, SparkSession, Path) => World) {

  /** Runs a world's queries, or one of them after the same changes. */
  def run(seed: Long, queries: Int, only: Option[Int] = None): Fuzzer.Tally = {
    val home = Files.createTempDirectory(directory, s"world-$seed-")
    val sessions = Seq.fill(2)(session.newSession())
    val world = make(seed, session, home)
    val oracle = new Oracle(sessions.head, sessions.last, home)
    try {
      sessions.foreach(world.show)
      (0 until only.fold(queries)(_ + 1)).foldLeft(Fuzzer.Tally()) { (tally, n) =>
        if (n % Fuzzer.QueriesPerChange == Fuzzer.QueriesPerChange - 1) {
          world.change(n)
          sessions.foreach(world.show)
        }
        if (only.forall(_ == n)) tally + verdicts(seed, n, world, oracle) else tally
      }
    } finally world.remove()
  }

  private def verdicts(seed: Long, n: Int, world: World, oracle: Oracle): Fuzzer.Tally = {
    val ways = world.query(n)
    ways
      .zip(oracle.check(ways))
      .map {
        case (_, Verdict.Pointless(why)) => Fuzzer.Tally(pointless = Seq(s"$seed:$n ${why.take(150)}"))
        case (_, Verdict.Same(skipped, byKeys)) =>
          Fuzzer.Tally(same = 1, skipping = if (skipped > 0) 1 else 0, byKeys = if (byKeys) 1 else 0)
        case (query, Verdict.Different(how)) =>
          Fuzzer.Tally(failures = Seq(report(seed, n, query, how, world, oracle)))
      }
      .reduce(_ + _)
  }

  private def report(seed: Long, n: Int, query: Query, how: String, world: World, oracle: Oracle): String = {
    val (smallest, reason) = smaller(query, how, oracle)
    s"""seed $seed:$n
       |$reason
       |found by: ${query.sql}
       |smallest: ${smallest.sql}
       |settings: ${smallest.settings.toSeq.sorted.map { case (name, value) => s"$name=$value" }.mkString(" ")}
       |${Try(oracle.explain(smallest)).fold(_.toString, identity)}
       |${world.account}""".stripMargin
  }

  /** Takes away what is not needed for a difference, one by one. */
  @annotation.tailrec
  private def smaller(query: Query, how: String, oracle: Oracle): (Query, String) =
    query.smaller.iterator
      .map(less => less -> oracle.check(less))
      .collectFirst { case (less, Verdict.Different(reason)) => less -> reason } match {
      case Some((less, reason)) => smaller(less, reason, oracle)
      case None => query -> how
    }
}

object Fuzzer {

  private val QueriesPerChange = 12

  /**
   * @param same
   *   queries with the same answer, each counted in each way it was asked
   * @param skipping
   *   those of them that did skip files
   * @param byKeys
   *   those that skipped files by keys of a join
   * @param pointless
   *   why queries fail without skipping
   */
  final case class Tally(
      same: Int = 0,
      skipping: Int = 0,
      byKeys: Int = 0,
      pointless: Seq[String] = Nil,
      failures: Seq[String] = Nil
  ) {
    def asked: Int = same + pointless.size + failures.size

    def +(other: Tally): Tally = Tally(
      same + other.same,
      skipping + other.skipping,
      byKeys + other.byKeys,
      pointless ++ other.pointless,
      failures ++ other.failures
    )
  }
}

/** What the suites that fuzz have in common. */
object FuzzedSpark {

  private def property(name: String): Option[String] = sys.props.get(s"penstock.fuzz.$name")

  /** How many queries are asked, each in several ways. */
  val queries: Int = property("queries").flatMap(_.toIntOption).getOrElse(0)

  private val seeds: Seq[Long] = property("seed").toSeq.flatMap(_.split(':')).flatMap(_.toLongOption)

  /** The first world's: another one each time where `random` is asked for. */
  val seed: Long = seeds.headOption.getOrElse(System.nanoTime() & 0xffffff)

  /** The one query of that world that is to be repeated. */
  val only: Option[Int] = seeds.drop(1).headOption.map(_.toInt)

  val settings: Map[String, String] = Map(
    "spark.sql.datetime.java8API.enabled" -> "true",
    "spark.sql.session.timeZone" -> "UTC",
    // What has bounds; batches are written in other ways, too.
    "spark.sql.parquet.outputTimestampType" -> "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec" -> "uncompressed",
    "spark.shuffle.compress" -> "false",
    "spark.broadcast.compress" -> "false",
    // Telling the UI of each plan as it changes would take longer than to run it.
    "spark.sql.ui.explainMode" -> "simple",
    // An index replaced is an index seen.
    "spark.penstock.skipping.index.max.age" -> "0s"
  )
}

/** Settings of a query's session. */
object Settings {

  /** Those by which an answer may be another one, a failure among them. */
  private val Answers: Seq[(String, Seq[String])] = Seq(
    "spark.sql.ansi.enabled" -> Seq("true", "false"),
    "spark.sql.caseSensitive" -> Seq("false"),
    "spark.sql.session.timeZone" -> Seq("UTC", "UTC", "America/Los_Angeles", "Asia/Kathmandu"),
    // A sample is another one of other tasks; a task takes longer to start than to read these files.
    "spark.sql.files.minPartitionNum" -> mostly("1", "2")
  )

  /** Those that only change how it is come by: Spark's, and Penstock's. */
  private val Ways: Seq[(String, Seq[String])] = Seq(
    "spark.sql.adaptive.enabled" -> Seq("true", "false"),
    "spark.sql.cbo.enabled" -> Seq("true", "false"),
    // Rarely: it takes longer to compile these queries than to run them.
    "spark.sql.codegen.wholeStage" -> Seq("false", "false", "false", "false", "false", "true"),
    "spark.sql.codegen.factoryMode" -> Seq("NO_CODEGEN", "NO_CODEGEN", "NO_CODEGEN", "NO_CODEGEN", "FALLBACK"),
    "spark.sql.autoBroadcastJoinThreshold" -> mostly("10485760", "-1"),
    // Without these two no keys come by.
    "spark.sql.optimizer.dynamicPartitionPruning.enabled" -> mostly("true", "false"),
    "spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly" -> Seq("true", "false"),
    "spark.sql.optimizer.runtime.bloomFilter.enabled" -> Seq("true", "false"),
    "spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold" -> Seq("0", "10737418240"),
    "spark.sql.parquet.enableVectorizedReader" -> Seq("true", "true", "false"),
    "spark.sql.parquet.filterPushdown" -> Seq("true", "true", "false"),
    "spark.sql.exchange.reuse" -> mostly("true", "false"),
    "spark.sql.shuffle.partitions" -> Seq("1", "2", "3"),
    Prefix + "dynamic.enabled" -> mostly("true", "false"),
    Prefix + "transitive.enabled" -> Seq("true", "true", "false"),
    Prefix + "dynamic.max.keys" -> Seq("10000", "10000", "1", "3", "8"),
    Prefix + "dynamic.second.run.max.bytes" -> Seq("10m", "10m", "0"),
    // Here it must be right also where it does not pay.
    Prefix + "dynamic.max.files.per.key" -> mostly("1.0", "0.5"),
    Prefix + "verify" -> mostly("false", "true")
  )

  private def mostly(value: String, rarely: String): Seq[String] = Seq.fill(5)(value) :+ rarely

  def of(dice: Dice): Map[String, String] = chosen(Answers ++ Ways, dice)

  /** Another way to the same answer. */
  def another(settings: Map[String, String], dice: Dice): Map[String, String] = settings ++ chosen(Ways, dice)

  private def chosen(choices: Seq[(String, Seq[String])], dice: Dice): Map[String, String] =
    choices.map { case (name, values) => name -> dice.oneOf(values) }.toMap

  /** Every name that may be set. */
  val names: Seq[String] = (Answers ++ Ways).map(_._1)
}

/**
 * The tables' files. Their names and times are ours, so that a world is the same each time it is made, and all times
 * are long past: an index takes nothing for granted of a file that might still be changing.
 *
 * The sessions' file system for `file:` is the plain one, since files change their names and contents under it.
 */
final class Lake(session: SparkSession, directory: Path) {

  private val files = mutable.Map.empty[String, Vector[Path]].withDefaultValue(Vector.empty)
  private var batches = 0
  private var clock = System.currentTimeMillis() / 1000 - 24 * 3600

  def root(table: Table): Path = directory.resolve(table.name)

  def count(table: Table): Int = files(table.name).size

  /** Adds the files of a batch to the table. */
  def add(table: Table, batch: Batch): Unit = {
    batches += 1
    val written = write(batch)
    files(table.name) ++= written.map { case (number, file) =>
      val home = (table.partition, batch.files(number).partition) match {
        case (Some(column), Some(value)) => root(table).resolve(partitionDirectory(column, value))
        case _ => root(table)
      }
      Files.createDirectories(home)
      place(file, home.resolve(f"b$batches%02d-$number%03d.parquet"))
    }
  }

  /** Puts the first file of a batch in the place of one of the table's, as an overwritten object. */
  def replace(table: Table, number: Int, batch: Batch): Unit =
    for ((_, file) <- write(batch).headOption) place(file, files(table.name)(number))

  def delete(table: Table, number: Int): Unit = {
    Files.delete(files(table.name)(number))
    files(table.name) = files(table.name).patch(number, Nil, 1)
  }

  private def place(file: Path, target: Path): Path = {
    clock += 1
    Files.move(file, target, StandardCopyOption.REPLACE_EXISTING)
    Files.setLastModifiedTime(target, FileTime.fromMillis(clock * 1000))
  }

  /** By the number of their rows in the batch; a file without rows may not have been written. */
  private def write(batch: Batch): Seq[(Int, Path)] = {
    val staging = Files.createTempDirectory(directory, "_staging")
    val (settings, options) = batch.settings.partition(_._1.startsWith("spark."))
    val writer = session.newSession()
    settings.foreach { case (name, value) => writer.conf.set(name, value) }
    val parts = batch.files.map(_.rows)
    val rows = writer.sparkContext.parallelize(parts, math.max(1, parts.size)).flatMap(identity[Seq[Row]] _)
    writer
      .createDataFrame(rows, Table.schema(batch.columns))
      .write
      .options(options)
      .mode("overwrite")
      .parquet(staging.toUri.toString)
    val found = Files.list(staging).iterator().asScala.toVector.filter(_.getFileName.toString.startsWith("part-"))
    found.map(file => file.getFileName.toString.slice(5, 10).toInt -> file).sortBy(_._1)
  }

  private def partitionDirectory(column: Column, value: Any): String =
    ExternalCatalogUtils.getPartitionPathString(column.name, if (value == null) null else value.toString)

  def remove(): Unit = FileUtil.fullyDelete(directory.toFile)

  /** For the account of a failure. */
  def listing(table: Table): Seq[String] = files(table.name).map { file =>
    s"${root(table).relativize(file)} ${Files.size(file)} ${Files.getLastModifiedTime(file)}"
  }
}

/** How a batch of files differs from what Spark writes by default. */
object Writing {

  /** As other writers, older ones and oddly configured ones write; what bounds are to be trusted, is not the same. */
  def settings(dice: Dice): Map[String, String] = dice.weighed(
    8 -> (() => Map.empty[String, String]),
    2 -> (() => Map("parquet.statistics.truncate.length" -> dice.of("1", "3", "64"))),
    1 -> (() => Map("parquet.column.statistics.enabled" -> "false")),
    1 -> (() => Map("parquet.block.size" -> "1", "parquet.block.size.row.check.min" -> "2")),
    1 -> (() => Map("parquet.writer.version" -> "PARQUET_2_0")),
    1 -> (() => Map("parquet.enable.dictionary" -> "false")),
    1 -> (() => Map("spark.sql.parquet.writeLegacyFormat" -> "true")),
    1 -> (() => Map("spark.sql.parquet.outputTimestampType" -> dice.of("INT96", "TIMESTAMP_MILLIS"))),
    1 -> { () =>
      Map(
        "spark.sql.parquet.datetimeRebaseModeInWrite" -> "LEGACY",
        "spark.sql.parquet.int96RebaseModeInWrite" -> "LEGACY",
        "spark.sql.parquet.outputTimestampType" -> dice.of("INT96", "TIMESTAMP_MICROS")
      )
    }
  )

  /** Types whose files Spark also reads as the wider one. */
  private val Narrower = Map(
    "BIGINT" -> "INT",
    "INT" -> "SMALLINT",
    "SMALLINT" -> "TINYINT",
    "DOUBLE" -> "FLOAT",
    "TIMESTAMP_NTZ" -> "DATE",
    "DECIMAL(9,2)" -> "DECIMAL(5,1)"
  )

  /** The columns the files get, and how they differ from the table's. */
  def columns(table: Table, dice: Dice): (Seq[Column], String) = dice.weighed(
    7 -> (() => (table.keys, "")),
    1 -> { () =>
      val without = dice.oneOf(table.keys)
      (table.keys.filterNot(_ == without), s" without ${without.name}")
    },
    1 -> { () =>
      val narrow = table.keys.map { column =>
        val kind = Narrower.get(column.kind.sql).flatMap(sql => Kind.All.find(_.sql == sql))
        kind.fold(column)(k => column.copy(kind = k))
      }
      (narrow, " of narrower types")
    },
    1 -> (() => (table.keys.map(c => c.copy(name = c.name.toUpperCase)), " with names in capitals")),
    1 -> (() => (table.keys.reverse, " in another order"))
  )
}

/** A test that hangs tells less than one that fails. */
object Ending extends Assertions {

  /** What comes of the work; fails with the stack of every thread where it does not end in time. */
  def within[A](limit: FiniteDuration)(work: => A): A = {
    val task = new FutureTask[A]((() => work): Callable[A])
    val thread = new Thread(task, "ending")
    thread.setDaemon(true)
    thread.start()
    try task.get(limit.toMillis, TimeUnit.MILLISECONDS)
    catch {
      case failed: ExecutionException => throw failed.getCause
      case _: TimeoutException =>
        val where = stacks
        task.cancel(true)
        fail(s"it does not end within $limit\n$where")
    }
  }

  private def stacks: String = Thread.getAllStackTraces.asScala
    .map { case (thread, frames) => s"${thread.getName} ${thread.getState}\n" + frames.map("    " + _).mkString("\n") }
    .mkString("\n")
}

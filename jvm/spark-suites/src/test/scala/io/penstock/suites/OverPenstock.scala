package io.penstock.suites

import java.lang.management.ManagementFactory
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path, StandardOpenOption}

import com.sun.management.OperatingSystemMXBean
import org.apache.spark.SparkConf
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanHelper
import org.apache.spark.sql.execution.{ReusedSubqueryExec, SparkPlan}
import org.apache.spark.sql.test.SharedSparkSessionBase
import org.scalatest.{Args, Status, Suite}

import io.penstock.fs.commit.CommitExtension
import io.penstock.fs.metrics.Counters
import io.penstock.fs.scan.ScanExtension
import io.penstock.skipping.SkippingExtension
import io.penstock.skipping.model.SkippingCounters
import io.penstock.skipping.plan.SkippedFilesExec

/**
 * One of Spark's suites over Penstock: with the session extension, an index after each write, and in-memory rows in
 * tables of several files. In the arm `spark` it runs over the same tables by Spark alone.
 */
trait OverPenstock extends SharedSparkSessionBase { this: Suite =>

  /** Whether some query of the suite has files to skip; that it does is asserted. */
  protected def skips: Boolean = true

  protected def extensions: Seq[Class[_]] =
    if (Arm.isPenstock) Seq(classOf[RowsToTables], classOf[SkippingExtension]) else Seq(classOf[RowsToTables])

  protected def settings: Map[String, String] = Map(
    RowsToTables.Directory -> OverPenstock.localTables.toUri.toString,
    "spark.sql.sources.commitProtocolClass" -> classOf[IndexedCommits].getName
  )

  override protected def sparkConf: SparkConf = {
    val conf = super.sparkConf
    val others = conf.getOption("spark.sql.extensions").toSeq
    conf.set("spark.sql.extensions", (others ++ extensions.map(_.getName)).mkString(","))
    val common = Map(
      RowsToTables.Enabled -> "true",
      // Indexes are replaced between two queries.
      "spark.penstock.skipping.index.max.age" -> "0s",
      // Here it must be right also where it does not pay.
      "spark.penstock.skipping.dynamic.max.files.per.key" -> "1.0",
      "spark.sql.parquet.outputTimestampType" -> "TIMESTAMP_MICROS",
      // Telling the UI of each plan as it changes would take longer than to run it.
      "spark.sql.ui.explainMode" -> "simple"
    )
    (common ++ settings ++ Arm.settings).foreach { case (name, value) => conf.set(name, value) }
    conf
  }

  /** Spark's name of the suite. */
  private def suite: String = getClass.getSuperclass.getSimpleName

  /** Tests that are left out are ignored, and shown as such. */
  abstract override def tags: Map[String, Set[String]] = {
    val leftOut = testNames.filter(Differences.isLeftOut(getClass.getSimpleName, suite, _))
    super.tags ++ leftOut.map(name => name -> (super.tags.getOrElse(name, Set.empty) + "org.scalatest.Ignore"))
  }

  private var ran = 0

  abstract override protected def runTest(testName: String, args: Args): Status = {
    ran += 1
    val status = super.runTest(testName, args)
    if (!status.succeeds()) OverPenstock.note("failed", s"${getClass.getSimpleName}\t$testName")
    status
  }

  private lazy val before = OverPenstock.counts()

  override def beforeAll(): Unit = {
    before
    super.beforeAll()
  }

  override def afterAll(): Unit = {
    super.afterAll()
    val counts = OverPenstock.counts().map { case (name, count) => name -> (count - before.getOrElse(name, 0L)) }
    val line = counts.collect { case (name, count) if count != 0 => s"$name=$count" }.toSeq.sorted.mkString(" ")
    OverPenstock.note("counts", s"${getClass.getSimpleName}\tran=$ran $line")
    // A targeted run of a few tests shows nothing about the suite.
    if (Arm.isPenstock && ran > testNames.size / 2)
      for ((name, why) <- requirements if counts.getOrElse(name, 0L) == 0) throw new AssertionError(s"$suite: $why")
  }

  /** Counts that a whole run of the suite leaves above zero, each with what it means if it does not. */
  protected def requirements: Map[String, String] =
    if (skips) Map("files_skipped" -> "no file was skipped")
    else Map("indexes_used" -> "no index was built, and none was asked")
}

object OverPenstock {

  private lazy val localTables: Path = {
    val directory = Files.createTempDirectory("penstock-suites-")
    sys.addShutdownHook(org.apache.hadoop.fs.FileUtil.fullyDelete(directory.toFile))
    directory
  }

  private val processor = ManagementFactory.getPlatformMXBean(classOf[OperatingSystemMXBean])

  /** Every sum of this JVM that says that something was done. */
  private def counts(): Map[String, Long] =
    SkippingCounters.now().toMap ++ Counters.now() ++ Map(
      "core_seconds" -> processor.getProcessCpuTime / 1000000000L,
      "seconds" -> System.nanoTime / 1000000000L,
      "indexes" -> Tables.indexes.sum,
      "indexes_used" -> (Tables.indexes.sum + SkippingCounters.now().toMap.apply("scans")),
      "indexed_files" -> Tables.files.sum,
      "indexes_refused" -> Tables.refused.sum,
      "tables_of_rows" -> RowsToTables.tables.sum,
      "scans_of_rows" -> RowsToTables.scans.sum
    )

  /** Adds a line to `target/spark-suites/ARM.KIND`. */
  private def note(kind: String, line: String): Unit = synchronized {
    val directory = Path.of(sys.props.getOrElse("penstock.suites.notes", "target/spark-suites"))
    Files.createDirectories(directory)
    val file = directory.resolve(s"${Arm.name}.$kind")
    Files.write(file, s"$line\n".getBytes(UTF_8), StandardOpenOption.CREATE, StandardOpenOption.APPEND)
    ()
  }
}

/** One of Spark's suites with all its files in an S3 store: what has no scheme is there, the warehouse too. */
trait OnTheStore extends OverPenstock { this: Suite =>

  override protected def skips: Boolean = false

  override protected def extensions: Seq[Class[_]] =
    if (Arm.isPenstock) super.extensions ++ Seq(classOf[ScanExtension], classOf[CommitExtension]) else super.extensions

  override protected def settings: Map[String, String] = super.settings ++ StoreSettings.of(getClass.getSimpleName)

  override protected def requirements: Map[String, String] = Map(
    "requests_put" -> "nothing was written to the store",
    "files_committed" -> "no file was committed",
    "page_hits" -> "no page was read from the cache"
  ) ++ (if (Arm.indexesOnTheStore)
          super.requirements
        else Map.empty)
}

/** A suite whose queries leave nothing to skip. */
trait WithoutSkipping extends OverPenstock { this: Suite =>
  override protected def skips: Boolean = false
}

/** A suite that counts the file sources of a plan, of which its own rows are none. */
trait RowsInMemory extends OverPenstock { this: Suite =>
  override protected def settings: Map[String, String] = super.settings + (RowsToTables.Enabled -> "false")
}

/** Every join shuffles both its sides, unless a suite says otherwise. */
trait WithoutBroadcasts extends OverPenstock { this: Suite =>
  override protected def settings: Map[String, String] =
    super.settings + ("spark.sql.autoBroadcastJoinThreshold" -> "-1")
}

/**
 * A suite that says of each subquery of a plan how it is run. What a scan tells of its skipping stands in the plan as a
 * subquery, but is never run.
 */
trait NotesAside extends AdaptiveSparkPlanHelper {
  override def subqueriesAll(plan: SparkPlan): Seq[SparkPlan] =
    super.subqueriesAll(plan).filter {
      case _: SkippedFilesExec | ReusedSubqueryExec(_: SkippedFilesExec) => false
      case _ => true
    }
}

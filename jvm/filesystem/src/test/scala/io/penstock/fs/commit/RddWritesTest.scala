package io.penstock.fs.commit

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Files

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.hadoop.fs.s3a.commit.CommitConstants
import org.apache.hadoop.fs.s3a.commit.files.SuccessData
import org.apache.hadoop.io.{IntWritable, NullWritable, SequenceFile, Text}
import org.apache.hadoop.mapred.{MapFileOutputFormat, OutputFormat}
import org.apache.hadoop.mapreduce.lib.output.{FileOutputFormat, TextOutputFormat}
import org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl
import org.apache.hadoop.mapreduce.{Job, TaskAttemptID, TaskType}
import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSession
import org.scalatest.BeforeAndAfterAll
import org.scalatest.concurrent.Eventually._
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.SpanSugar._

import io.penstock.fs.PenstockFileSystem
import io.penstock.fs.metrics.Counters
import io.penstock.fs.testing.{Requests, Store}

/** Output of RDDs, by Hadoop's two interfaces. */
class RddWritesTest extends RddWrites(CommittingRdds.settings)

/** The same where tasks end before their files are uploaded. */
class RddWritesBehindTest extends RddWrites(CommittingRdds.settings ++ CommittingSpark.Behind) {

  test("files are closed behind their tasks") {
    val before = Counters.FilesClosedBehind.value
    lines(4).saveAsTextFile(path("behind"))
    assert(Counters.FilesClosedBehind.value == before + 2)
    assertClean("behind")
  }
}

abstract class RddWrites(settings: Map[String, String]) extends AnyFunSuite with BeforeAndAfterAll {

  private lazy val bucket = Store.newBucket()
  private lazy val spark: SparkSession = CommittingSpark.start(more = settings)

  override def afterAll(): Unit = spark.stop()

  protected def path(output: String): String = bucket.path(output).toString

  protected def lines(count: Int): RDD[String] = spark.sparkContext.parallelize(0 until count, 2).map(_.toString)

  private def read(output: String): Seq[Int] = spark.sparkContext.textFile(path(output)).collect().map(_.toInt).toSeq

  /** The commit log at rest, no trace of how the output came about, and the success that tools look for. */
  protected def assertClean(output: String): Unit = {
    assertNothingPending(output)
    val commitLog = bucket.list(output + "/").filter(_.contains(CommitLog.Directory))
    assert(commitLog.size == 1 && bucket.get(commitLog.head).exists(_.isEmpty))
    assert(CommittingRdds.committer(bucket, output) == "penstock")
  }

  private def assertNothingPending(output: String): Unit = {
    assert(bucket.pendingUploads().filter(_.startsWith(output + "/")).isEmpty)
    assert(bucket.list(output + "/").filter(key => key.contains("__magic") || key.contains("_temporary")).isEmpty)
  }

  private def names(output: String): Seq[String] =
    bucket.list(output + "/").map(_.stripPrefix(output + "/")).filterNot(_.startsWith("_"))

  private def pairs(count: Int): RDD[(NullWritable, Text)] =
    lines(count).map(line => (NullWritable.get, new Text(line)))

  private def saveNew(rows: RDD[(NullWritable, Text)], output: String): Unit =
    rows.saveAsNewAPIHadoopFile(
      path(output),
      classOf[NullWritable],
      classOf[Text],
      classOf[TextOutputFormat[NullWritable, Text]],
      spark.sparkContext.hadoopConfiguration
    )

  test("text files have their names and their rows, and are committed by one record") {
    lines(6).saveAsTextFile(path("text"))
    assert(names("text") == Seq("part-00000", "part-00001"))
    assert(read("text") == (0 until 6))
    assertClean("text")
  }

  test("so have those of Hadoop's newer interface") {
    saveNew(pairs(6), "newer")
    assert(names("newer") == Seq("part-r-00000", "part-r-00001"))
    assert(read("newer") == (0 until 6))
    assertClean("newer")
  }

  test("a job's tasks find it by their configuration, or by where they write") {
    // Hadoop copies such a configuration for the job, whose id then does not come with its tasks.
    val job = Job.getInstance(spark.sparkContext.hadoopConfiguration)
    job.setOutputKeyClass(classOf[NullWritable])
    job.setOutputValueClass(classOf[Text])
    job.setOutputFormatClass(classOf[TextOutputFormat[NullWritable, Text]])
    FileOutputFormat.setOutputPath(job, bucket.path("copied"))
    pairs(6).saveAsNewAPIHadoopDataset(new Configuration(job.getConfiguration))
    assert(read("copied") == (0 until 6))
    assertClean("copied")
  }

  test("compressed files, and files that are directories, reach their places") {
    lines(6).saveAsTextFile(path("compressed"), classOf[org.apache.hadoop.io.compress.GzipCodec])
    assert(names("compressed") == Seq("part-00000.gz", "part-00001.gz") && read("compressed") == (0 until 6))
    assertClean("compressed")
    // Its own types do not fit Spark's.
    val maps = classOf[MapFileOutputFormat].asInstanceOf[Class[OutputFormat[IntWritable, Text]]]
    spark.sparkContext
      .parallelize(0 until 6, 2)
      .map(n => (new IntWritable(n), new Text(n.toString)))
      .saveAsHadoopFile(path("maps"), classOf[IntWritable], classOf[Text], maps)
    val files = for (part <- 0 to 1; name <- Seq("data", "index")) yield s"part-0000$part/$name"
    assert(names("maps") == files)
    Using.resource(
      new SequenceFile.Reader(
        spark.sparkContext.hadoopConfiguration,
        SequenceFile.Reader.file(bucket.path("maps/part-00001/data"))
      )
    ) { reader =>
      val (key, value) = (new IntWritable, new Text)
      assert(Iterator.continually(reader.next(key, value)).takeWhile(identity).map(_ => key.get).toSeq == Seq(3, 4, 5))
    }
    assertClean("maps")
  }

  test("a job without rows has its success and no data") {
    spark.sparkContext.emptyRDD[String].saveAsTextFile(path("empty"))
    assert(names("empty").isEmpty && CommittingRdds.committer(bucket, "empty") == "penstock")
  }

  test("output that is there is refused, and stays") {
    lines(6).saveAsTextFile(path("twice"))
    intercept[Exception](lines(2).saveAsTextFile(path("twice")))
    assert(read("twice") == (0 until 6))
  }

  /** Rows, of which one fails in the first `failures` attempts of its task, after others have been written. */
  private def failing(failures: Int): RDD[String] = lines(6).map { line =>
    if (line == "5" && TaskContext.get().attemptNumber() < failures) throw new IllegalStateException("made to fail")
    line
  }

  test("a task that fails once leaves nothing of its first attempt") {
    failing(1).saveAsTextFile(path("retried"))
    assert(read("retried") == (0 until 6))
    assertClean("retried")
  }

  test("a job whose task fails for good shows nothing, and leaves nothing") {
    intercept[Exception](failing(9).saveAsTextFile(path("failed")))
    assert(names("failed").isEmpty)
    eventually(timeout(60.seconds))(assertNothingPending("failed"))
    assert(!bucket.list("failed/").exists(_.endsWith("_SUCCESS")))
  }

  test("what is written elsewhere than to the lake is Hadoop's to commit") {
    val local = Files.createTempDirectory("rdd").resolve("output")
    lines(6).saveAsTextFile(local.toUri.toString)
    assert(Files.list(local).iterator.asScala.count(_.getFileName.toString.startsWith("part-")) == 2)
  }

  test("a file costs its upload's requests, and no other") {
    def requests(files: Int) = Requests.during {
      spark.sparkContext.parallelize(0 until files, files).map(_.toString).saveAsTextFile(path(s"counted-$files"))
    }
    val (few, many) = (requests(2), requests(8))
    assert(many == few + ("PUT" -> (few("PUT") + 6)) + ("POST" -> (few("POST") + 2 * 6)))
  }
}

/** A Spark that has the committers, and not the plug-in through which their tasks report. */
class RddWritesWithoutPluginTest extends AnyFunSuite {

  test("output is committed as without Penstock, by either of Hadoop's interfaces") {
    val bucket = Store.newBucket()
    val spark = CommittingSpark.start(more = CommittingRdds.settings - "spark.plugins")
    try {
      val lines = spark.sparkContext.parallelize(0 until 6, 2)
      lines.saveAsTextFile(bucket.path("older").toString)
      lines
        .map(n => (NullWritable.get, new Text(n.toString)))
        .saveAsNewAPIHadoopFile[TextOutputFormat[NullWritable, Text]](bucket.path("newer").toString)
      for (output <- Seq("older", "newer"))
        assert(bucket.list(output + "/").count(_.contains("/part-")) == 2, output)
      assert(CommittingRdds.committer(bucket, "newer") == "magic")
    } finally spark.stop()
  }
}

/** Attempts of one task that report to a driver, in any order. */
class ReportedTaskOutputTest extends AnyFunSuite with BeforeAndAfterAll {

  private lazy val bucket = Store.newBucket()
  private val reports = mutable.Buffer.empty[TaskReport]

  /** Whether the driver receives a task's end, and what it answers is lost. */
  private var isCutOff = false

  override def beforeAll(): Unit = DriverLink.current = Some(
    new DriverLink({
      case report: TaskReport =>
        reports += report
        val heard = RunningJobs.heard(report)
        if (isCutOff && report.isInstanceOf[TaskReport.Committed]) throw new java.io.IOException("connection reset")
        Boolean.box(heard)
      case _ => None
    })
  )

  override def afterAll(): Unit = DriverLink.current = None

  private val conf = {
    val conf = Store.conf()
    conf.set("fs.s3a.impl", classOf[PenstockFileSystem].getName)
    conf.setBoolean(CommitConstants.FS_S3A_COMMITTER_MAGIC_TRACK_COMMITS_IN_MEMORY_ENABLED, true)
    conf
  }

  final private class Attempt(job: String, output: Path, number: Int) {
    private val context =
      new TaskAttemptContextImpl(conf, new TaskAttemptID("20260101", 0, TaskType.REDUCE, 0, number))
    val committer = new AtomicOutputCommitter(output, job, context)
    committer.setupTask(context)

    def write(text: String): Unit =
      Using.resource(output.getFileSystem(conf).create(new Path(committer.getWorkPath, "part-r-00000"))) { stream =>
        stream.write(text.getBytes(UTF_8))
      }

    def commit(): Unit = committer.commitTask(context)
    def abort(): Unit = committer.abortTask(context)
  }

  private def job(name: String): (String, Path, AtomicOutputCommitter) = {
    val (id, output) = (s"job-of-$name", bucket.path(name))
    val driver = new Attempt(id, output, 0).committer
    driver.setupJob(null)
    (id, output, driver)
  }

  private def text(name: String): Option[String] = bucket.get(s"$name/part-r-00000").map(new String(_, UTF_8))

  private def pending(name: String) = bucket.pendingUploads().filter(_.startsWith(name + "/"))

  test("the attempt that is heard last counts, and what the others have uploaded is aborted") {
    val (id, output, driver) = job("repeated")
    for (number <- 0 to 1) {
      val attempt = new Attempt(id, output, number)
      attempt.write(s"of attempt $number")
      attempt.commit()
    }
    assert(pending("repeated").size == 2)
    driver.commitJob(null)
    assert(text("repeated").contains("of attempt 1") && pending("repeated").isEmpty)
  }

  test("an attempt that is aborted takes nothing from another of the same names") {
    val (id, output, driver) = job("aborted")
    val (first, second) = (new Attempt(id, output, 0), new Attempt(id, output, 1))
    first.write("first")
    second.write("second")
    second.commit()
    // Spark aborts an attempt that it has not allowed to commit, twice.
    first.abort()
    first.abort()
    driver.commitJob(null)
    assert(text("aborted").contains("second") && pending("aborted").isEmpty)
  }

  test("a file that is written twice is there as it was closed last") {
    val (id, output, driver) = job("rewritten")
    val attempt = new Attempt(id, output, 0)
    attempt.write("first")
    attempt.write("second")
    attempt.commit()
    driver.commitJob(null)
    assert(text("rewritten").contains("second") && pending("rewritten").isEmpty)
  }

  test("an attempt that was lost without a word leaves nothing when the job is over") {
    for (ending <- Seq("committed", "failed")) {
      val (id, output, driver) = job(ending)
      new Attempt(id, output, 0).write("lost")
      if (ending == "failed") driver.abortJob(null, null) else driver.commitJob(null)
      assert(text(ending).isEmpty && pending(ending).isEmpty, ending)
    }
  }

  test("an attempt that comes when the job is over is refused, and creates nothing") {
    val (id, output, driver) = job("over")
    val (late, later) = (new Attempt(id, output, 0), new Attempt(id, output, 1))
    late.write("late")
    driver.abortJob(null, null)
    assert(intercept[java.io.IOException](late.commit()).getMessage.contains("is over"))
    assert(intercept[java.io.IOException](later.write("later")).getMessage.contains("is over"))
    late.abort()
    assert(bucket.list("over/").filterNot(_.contains(CommitLog.Directory)).isEmpty && pending("over").isEmpty)
  }

  test("an attempt that does not learn whether it was heard takes nothing back") {
    val (id, output, driver) = job("unanswered")
    val attempt = new Attempt(id, output, 0)
    attempt.write("heard")
    isCutOff = true
    assert(intercept[java.io.IOException](attempt.commit()).getMessage.contains("cannot be asked"))
    isCutOff = false
    attempt.abort()
    driver.commitJob(null)
    assert(text("unanswered").contains("heard") && pending("unanswered").isEmpty)
  }

  test("of two jobs that write the same file the later one fails, and the first one's file stays") {
    val (id, output, driver) = job("equal")
    val laterDriver = new Attempt("later", output, 0).committer
    laterDriver.setupJob(null)
    reports.clear()
    for (writer <- Seq(id, "later")) {
      val attempt = new Attempt(writer, output, 0)
      attempt.write(s"of $writer")
      attempt.commit()
    }
    driver.commitJob(null)
    assert(intercept[java.io.IOException](laterDriver.commitJob(null)).getMessage.contains("same names"))
    laterDriver.abortJob(null, null)
    assert(text("equal").contains(s"of $id") && pending("equal").isEmpty)
    // By which a file is known to be a job's where only its name is there.
    val uploads = reports.collect { case TaskReport.Committed(of, _, written) => of -> written.uploads.head }.toMap
    val tag = bucket.etag("equal/part-r-00000").get
    assert(uploads(id).makes(tag).contains(true) && uploads("later").makes(tag).contains(false))
  }

  test("files are reported before they are created") {
    val (id, output, driver) = job("announced")
    reports.clear()
    val attempt = new Attempt(id, output, 0)
    attempt.write("x")
    assert(reports.toSeq == Seq(TaskReport.Began(id, Location(bucket.name, "announced/part-r-00000"))))
    attempt.abort()
    driver.abortJob(null, null)
  }
}

object CommittingRdds {

  /** Who has committed this output, by its own word. */
  def committer(bucket: Store.Bucket, output: String): String = {
    val success = new String(bucket.get(s"$output/_SUCCESS").get, UTF_8)
    SuccessData.serializer().fromJson(success).getCommitter
  }

  val settings: Map[String, String] = Map(
    "spark.plugins" -> classOf[CommitPlugin].getName,
    "spark.hadoop.fs.s3a.impl" -> classOf[PenstockFileSystem].getName,
    "spark.hadoop.fs.s3a.committer.name" -> "magic",
    "spark.hadoop.mapreduce.outputcommitter.factory.scheme.s3a" -> classOf[AtomicCommitterFactory].getName,
    "spark.hadoop.mapred.output.committer.class" -> classOf[AtomicMapredCommitter].getName
  )
}

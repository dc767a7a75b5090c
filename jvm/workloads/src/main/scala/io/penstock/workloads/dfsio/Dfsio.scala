package io.penstock.workloads.dfsio

import org.apache.spark.SparkContext
import org.apache.spark.sql.SparkSession
import org.apache.spark.util.SerializableConfiguration

import io.penstock.application.{Application, Arguments, UsageError}
import io.penstock.workloads.Report
import io.penstock.workloads.clients.{Clients, ClientsFailed, Content, Place, RateOverTime}

/**
 * The throughput of a file system against the number of clients, each with one stream of its own.
 *
 * For each number of clients the same files are written and read; every byte read is checked, also where reading is not
 * measured. What was written is deleted before the next number. Exits with 1 where a client failed or a byte was wrong.
 */
object Dfsio extends Application {

  override def run(arguments: Seq[String]): Int = {
    val plan = Plan.parse(arguments)
    val spark = SparkSession.builder().appName(s"DFSIO, ${plan.clients.mkString(", ")} clients").getOrCreate()
    val code = measure(spark.sparkContext, plan)
    spark.stop()
    code
  }

  private[dfsio] def measure(context: SparkContext, plan: Plan): Int = {
    Place.requireEmpty(plan.location, context.hadoopConfiguration)
    try
      Report.to(plan.report, context.hadoopConfiguration) { report =>
        val measurement = new Measurement(context, plan, report)
        try measurement.all()
        finally measurement.clean()
        report.opened(measurement.opened)
        if (report.wrongChecks > 0) 1 else 0
      }
    catch {
      case failed: ClientsFailed =>
        Console.err.println(failed.getMessage)
        1
    }
  }
}

/** The plan of a measurement: for each of `clients`, `files` of `fileBytes` in all, written and read back. */
private[dfsio] case class Plan(
    location: String,
    report: String,
    clients: Seq[Int],
    files: Int,
    fileBytes: Long,
    measured: Set[String],
    seed: Long
)

private[dfsio] object Plan {
  val Write = "write"
  val Read = "read"

  private val usage =
    "Dfsio --location URI --report URI --clients 1,2,4 [--files N] [--file-size 64m] [--measure write,read] [--seed N]"
  private val known = Set("location", "report", "clients", "files", "file-size", "measure", "seed")

  /** `UsageError` for what could not be measured. */
  def parse(arguments: Seq[String]): Plan = {
    val options = Arguments.parse(arguments, known, usage)
    val clients = options.required("clients", "numbers of at least 1, such as 1,2,4") { text =>
      val numbers = text.split(",", -1).toSeq.map(_.trim.toIntOption.filter(_ > 0))
      Option.when(numbers.forall(_.isDefined))(numbers.flatten)
    }
    val files = options.int("files", default = clients.max, atLeast = 1)
    if (clients.max > files)
      throw new UsageError(s"${clients.max} clients are more than $files files: each needs at least one of its own.")
    val measured = options.list("measure").getOrElse(Seq(Write, Read)).toSet
    if (measured.isEmpty || !measured.subsetOf(Set(Write, Read)))
      throw new UsageError(s"--measure takes $Write, $Read or both, as in --measure $Write,$Read.")
    Plan(
      options.required("location").stripSuffix("/"),
      options.required("report"),
      clients,
      files,
      options.size("file-size", "64m"),
      measured,
      options.long("seed", 0, atLeast = 0)
    )
  }
}

private class Measurement(context: SparkContext, plan: Plan, report: Report) {

  private val clients = new Clients(context)
  private val hadoop = context.broadcast(new SerializableConfiguration(context.hadoopConfiguration))
  private val content = new Content(plan.seed)

  /** The files that were opened to be read, those of the warm-up included. */
  var opened = 0L

  def all(): Unit = {
    warmUp()
    if (plan.measured(Plan.Write)) plan.clients.foreach(measure)
    else {
      val files = Transfer(plan.location, content, plan.fileBytes)
      val writtenIn =
        Measurement.writers(write(files, math.min(plan.files, 2 * clients.executors), plan.files, "prepare"))
      plan.clients.foreach(read(files, _, writtenIn))
    }
  }

  def clean(): Unit = Place.remove(plan.location, context.hadoopConfiguration)

  /** Connections, buffers and the compiler are there before anything is timed. */
  private def warmUp(): Unit = {
    val files = Transfer(plan.location, content, math.min(plan.fileBytes, Measurement.WarmUpBytes))
    val _ = write(files, clients.executors, clients.executors, "warm up")
    val _ = readBack(files, clients.executors, Vector.fill(clients.executors)(""), "warm up")
    clean()
  }

  private def measure(count: Int): Unit = {
    val files = Transfer(plan.location, content, plan.fileBytes)
    val written = write(files, count, plan.files, Curve.name(Plan.Write, count))
    Curve.record(report, Plan.Write, written)
    read(files, count, Measurement.writers(written))
    clean()
  }

  private def read(files: Transfer, count: Int, writtenIn: IndexedSeq[String]): Unit = {
    val done = readBack(files, count, writtenIn, Curve.name(Plan.Read, count))
    if (plan.measured(Plan.Read)) {
      val here = done.map(client => client.share.count(writtenIn(_) == client.executor)).sum
      Curve.record(report, Plan.Read, done, "read_where_written" -> here)
    }
    val wrong = done.flatMap(_.wrong)
    val note =
      if (wrong.isEmpty) s"${plan.files} files of ${plan.fileBytes} bytes, every byte as written"
      else s"${wrong.size} of ${plan.files} files: ${wrong.take(Measurement.Named).mkString("; ")}"
    report.check(s"contents, ${Curve.name(Plan.Write, count).stripPrefix(s"${Plan.Write}, ")}", wrong.isEmpty, note)
  }

  private def write(transfer: Transfer, count: Int, files: Int, doing: String): Seq[Transferred] = {
    val configuration = hadoop
    clients.together(count, doing) { client =>
      transfer.write(client, Shares.of(client.number, count, files), configuration.value.value)
    }
  }

  private def readBack(
      transfer: Transfer,
      count: Int,
      writtenIn: IndexedSeq[String],
      doing: String
  ): Seq[Transferred] = {
    val configuration = hadoop
    opened += writtenIn.size
    clients.together(count, doing) { client =>
      val share = Shares.toRead(writtenIn, client.executors)(client.number)
      transfer.read(client, Shares.of(share, count, writtenIn.size), configuration.value.value)
    }
  }
}

private object Measurement {
  private val WarmUpBytes = 16L << 20
  private val Named = 10

  /** The executor that wrote each file. */
  private def writers(done: Seq[Transferred]): IndexedSeq[String] =
    done.flatMap(client => client.share.map(_ -> client.executor)).sortBy(_._1).map(_._2).toIndexedSeq
}

/** The results of the clients of one measurement, as the lab records them. */
object Curve {

  /** `write, 4 clients`: one point of the curve. */
  def name(direction: String, clients: Int): String =
    s"$direction, $clients ${if (clients == 1) "client" else "clients"}"

  /**
   * Rates are in bytes per second. The elapsed time is that of the last client to be done; the clients' own rates are
   * over the time that each of them took, as TestDFSIO's average rate and its standard deviation are.
   */
  def record(report: Report, direction: String, done: Seq[Transferred], more: (String, Any)*): Unit = {
    val name = Curve.name(direction, done.size)
    val rates = done.map(client => client.bytes / (client.nanos / 1e9)).sorted
    val mean = rates.sum / rates.size
    report.measure(
      name,
      done.map(_.nanos).max / 1e6,
      done.map(_.bytes).sum,
      0,
      Seq(
        "clients" -> done.size,
        "operations" -> done.map(_.share.size).sum,
        "client_rate_lowest" -> rates.head,
        "client_rate_median" -> median(rates),
        "client_rate_highest" -> rates.last,
        "client_rate_mean" -> mean,
        "client_rate_deviation" -> math.sqrt(rates.map(rate => (rate - mean) * (rate - mean)).sum / rates.size),
        "content_ms" -> done.map(_.contentNanos).sum / 1e6
      ) ++ more: _*
    )
    for ((step, second) <- RateOverTime.merged(done.map(_.steps)).zipWithIndex)
      report.point(name, second, step.bytes, step.operations)
  }

  /** The mean of the middle two where their number is even. `sorted` is not empty. */
  private[dfsio] def median(sorted: Seq[Double]): Double =
    (sorted((sorted.size - 1) / 2) + sorted(sorted.size / 2)) / 2
}

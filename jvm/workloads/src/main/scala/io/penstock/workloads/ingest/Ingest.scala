package io.penstock.workloads.ingest

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.SparkContext
import org.apache.spark.sql.SparkSession
import org.apache.spark.util.SerializableConfiguration

import io.penstock.application.{Application, Arguments}
import io.penstock.workloads.Report
import io.penstock.workloads.clients.{Client, Clients, ClientsFailed, Content, ContentStream, Place, RateOverTime}

/**
 * Writers that put objects for a set time; then every object is listed and every byte of it compared.
 *
 * One count for each writer describes millions of objects, whose names and contents follow from it. Exits with 1 where
 * nothing could be written or anything was wrong.
 */
object Ingest extends Application {

  private val usage = "Ingest --location URI --report URI --seconds N [--writers 8] [--object-size 16m] " +
    "[--rate 100m] [--seed N] [--keep true|false]"
  private val known = Set("location", "report", "seconds", "writers", "object-size", "rate", "seed", "keep")

  override def run(arguments: Seq[String]): Int = {
    val options = Arguments.parse(arguments, known, usage)
    options.required("seconds")
    val load = IngestLoad(
      location = options.required("location").stripSuffix("/"),
      seconds = options.int("seconds", default = 60, atLeast = 1),
      writers = options.int("writers", default = 8, atLeast = 1),
      objectBytes = options.size("object-size", "16m"),
      bytesPerSecond = options.optional("rate").map(options.size("rate", _)),
      seed = options.long("seed", default = 0, atLeast = 0)
    )
    val keep = options.read("keep", "true or false")(_.toBooleanOption).getOrElse(false)
    val report = options.required("report")

    val spark = SparkSession.builder().appName(s"Ingest, ${load.writers} writers").getOrCreate()
    val code = measure(spark.sparkContext, load, report, keep)
    spark.stop()
    code
  }

  private[ingest] def measure(context: SparkContext, load: IngestLoad, report: String, keep: Boolean): Int = {
    Place.requireEmpty(load.location, context.hadoopConfiguration)
    try
      Report.to(report, context.hadoopConfiguration) { report =>
        try new Ingestion(context, load, report).all()
        finally if (!keep) Place.remove(load.location, context.hadoopConfiguration)
        if (report.wrongChecks > 0) 1 else 0
      }
    catch {
      case failed: ClientsFailed =>
        Console.err.println(failed.getMessage)
        1
    }
  }
}

private class Ingestion(context: SparkContext, load: IngestLoad, report: Report) {

  private val clients = new Clients(context)
  private val hadoop = context.broadcast(new SerializableConfiguration(context.hadoopConfiguration))

  def all(): Unit = {
    warmUp()
    val written = write()
    record(written)
    inspect(written)
  }

  /**
   * Classes, connections and the compiler are there before the time begins, which waits for nobody. A store that fails
   * already here is what the writers will meet, and count.
   */
  private def warmUp(): Unit = {
    val (small, configuration) = (load.copy(objectBytes = math.min(load.objectBytes, Ingestion.WarmUpBytes)), hadoop)
    try {
      val _ = clients.apart(clients.executors, "warm up") { client =>
        small.put(Series(client.number, client.attempt), 0, new ContentStream(small.content), configuration.value.value)
      }
    } catch { case failed: ClientsFailed => Console.err.println(failed.getMessage) }
    Place.remove(load.location, context.hadoopConfiguration)
  }

  private def write(): Seq[Written] = {
    val (load, configuration) = (this.load, hadoop)
    val startMs = System.currentTimeMillis() + Ingestion.LeadMs
    clients.apart(load.writers, s"ingest for ${load.seconds} s")(load.write(_, startMs, configuration.value.value))
  }

  private def record(written: Seq[Written]): Unit = {
    val objects = written.map(_.objects).sum
    val errors = written.flatMap(_.errors).groupMapReduce(_._1)(_._2)(_ + _)
    val first = written.flatMap(_.firstError).headOption.getOrElse("")
    if (errors.nonEmpty) report.errors("put", errors, first)
    if (objects == 0) throw new ClientsFailed(s"No object could be written. $first")
    val elapsed = written.map(_.endedNanos).max - written.map(_.startedNanos).min
    report.measure(
      "ingest",
      elapsed / 1e6,
      objects * load.objectBytes,
      0,
      Seq("basis" -> "rate", "operations" -> objects, "writers" -> load.writers) ++
        load.bytesPerSecond.map("asked_bytes_per_second" -> _): _*
    )
    val latencies = new Latencies
    written.foreach(latencies += _.latencies)
    report.latency("put", "total", latencies.histogram)
    for ((step, index) <- RateOverTime.merged(written.map(_.steps)).zipWithIndex)
      report.point("ingest", index.toLong * load.stepSeconds, step.bytes, step.operations, load.stepSeconds)
    checkWriters(written)
  }

  private def checkWriters(written: Seq[Written]): Unit = {
    val gaveUp = written.flatMap(one => one.gaveUp.map(why => s"writer ${one.series.writer} gave up: $why"))
    val again = written.filter(_.series.attempt > 0).map(one => s"writer ${one.series.writer} lost its executor")
    val came = if (gaveUp.isEmpty) Seq(s"${load.writers} writers came to their end") else gaveUp
    report.check("writers", gaveUp.isEmpty, (came ++ again).mkString("; "))
  }

  private def inspect(written: Seq[Written]): Unit = {
    context.setJobDescription("reading back what was written")
    val (load, configuration) = (this.load, hadoop)
    val (findings, elapsed) = report.timed {
      val here = new Inspection(load.location, load.content, load.objectBytes, context.hadoopConfiguration)
      val (folders, strange) = here.folders(written)
      val tasks = math.max(1, math.min(folders.size, Ingestion.TasksForEachExecutor * clients.executors))
      val found = context
        .parallelize(folders, tasks)
        .mapPartitions { mine =>
          val there = new Inspection(load.location, load.content, load.objectBytes, configuration.value.value)
          mine.map(there.inspect)
        }
        .fold(Findings.none)(_ + _)
      found.copy(extra = found.extra + strange)
    }
    report.measure("read back", elapsed, findings.bytes, 0, "operations" -> findings.objects)
    check("missing", findings.missing, findings)
    check("extra", findings.extra, findings)
    check("differing", findings.differing, findings)
  }

  private def check(kind: String, faults: Faults, findings: Findings): Unit = {
    val note =
      if (faults.count == 0) s"none of ${findings.objects} objects"
      else s"${faults.count}: ${faults.named.mkString(", ")}${if (faults.count > faults.named.size) " …" else ""}"
    report.check(s"$kind objects", faults.count == 0, note)
  }
}

private object Ingestion {

  /** The time for all writers to start, so that they begin together and no second of the rate includes a start. */
  private val LeadMs = 1000L
  private val WarmUpBytes = 1L << 20
  private val TasksForEachExecutor = 64
}

/** The parameters of a load; without a rate, writers write as fast as they can. */
case class IngestLoad(
    location: String,
    seconds: Int,
    writers: Int,
    objectBytes: Long,
    bytesPerSecond: Option[Long],
    seed: Long
) {

  def content: Content = new Content(seed)

  /** The points of the rate over time are of so many seconds each: some thousands in all, however long it goes on. */
  def stepSeconds: Int = (seconds + IngestLoad.Points - 1) / IngestLoad.Points

  /** Everything that one client puts. It begins at `startMs`, or when it can where that has passed. */
  def write(client: Client, startMs: Long, configuration: Configuration): Written = {
    val series = Series(client.number, client.attempt)
    val pace = bytesPerSecond.map(new Pace(client.number, writers, objectBytes, _))
    val until = seconds * 1000000000L
    val stream = new ContentStream(content)
    new Writer(series, objectBytes, until, pace, stepSeconds, new SharedClock(startMs))
      .run(put(series, _, stream, configuration))
  }

  /** One object, which is whole in the lake when this returns; `IOException` where it may be there or not. */
  def put(series: Series, sequence: Long, stream: ContentStream, configuration: Configuration): Unit = {
    val path = new Path(location, series.name(sequence))
    Using.resource(Place.create(path, configuration))(stream.write(_, series.content(sequence), objectBytes))
  }
}

private[ingest] object IngestLoad {
  private val Points = 3600
}

/** Time since a moment of the wall clock, which all machines share; it passes as this machine's steady clock runs. */
private class SharedClock(startMs: Long) extends Clock {
  private val offset = (System.currentTimeMillis() - startMs) * 1000000 - System.nanoTime()

  override def now: Long = System.nanoTime() + offset
  override def sleep(nanos: Long): Unit = if (nanos > 0) Thread.sleep(nanos / 1000000, (nanos % 1000000).toInt)
}

/**
 * When a writer may begin each object, so that all writers together write at a set rate. They begin evenly spread over
 * the time of one object, not all at once. A writer that is behind catches up: the mean is what was asked for, wherever
 * the store can bear it.
 */
class Pace(writer: Int, writers: Int, objectBytes: Long, bytesPerSecond: Long) {

  private val everyNanos = objectBytes.toDouble * writers / bytesPerSecond * 1e9

  /** Nanoseconds since the start. */
  def due(sequence: Long): Long = (everyNanos * (sequence + writer.toDouble / writers)).toLong
}

package io.penstock.workloads.terasort

import java.io.{BufferedInputStream, File, FileInputStream, FileOutputStream}
import java.lang.management.ManagementFactory

import scala.util.Using

import com.sun.management.OperatingSystemMXBean
import org.apache.hadoop.conf.Configuration

import io.penstock.application.{Application, Arguments, UsageError}
import io.penstock.workloads.{Manifest, Report}

/**
 * The limit that TeraSort is held against: one thread of one process that reads the same records from local files,
 * sorts them in memory and writes one local file. No store, no network, no shuffle, no cluster.
 *
 * `core_seconds` is all that the process used until the output was written, from its own start: compilation and garbage
 * collection included. Runs with plain `java`; the heap must hold the records and 24 bytes more for each.
 */
object LocalSort extends Application {

  private val usage = "LocalSort --input DIRECTORY --output FILE --report FILE"
  private val known = Set("input", "output", "report")

  override def run(arguments: Seq[String]): Int = {
    val options = Arguments.parse(arguments, known, usage)
    val input = new File(options.required("input"))
    val output = new File(options.required("output"))
    val report = options.required("report")
    val started = System.nanoTime()
    val records = sort(dataFiles(input), output)
    val elapsed = (System.nanoTime() - started) / 1e6
    val coreSeconds = processor.getProcessCpuTime / 1e9

    val configuration = new Configuration
    val expected = new Manifest(local(input), configuration).read[SortManifest]()
    val wrong = Report.to(local(new File(report)), configuration) { report =>
      val stretch = readBack(output)
      val verdicts = SortVerdict.of(expected, stretch.tally, stretch.disorder, Nil)
      for (check <- verdicts) report.check(s"single process: ${check.name}", check.right, check.note)
      val bytes = records.toLong * Record.Bytes
      if (report.wrongChecks == 0)
        report.measure("sort, single process", elapsed, bytes, records.toLong, "core_seconds" -> coreSeconds)
      report.wrongChecks
    }
    if (wrong == 0) 0 else 9
  }

  private def processor: OperatingSystemMXBean =
    ManagementFactory.getPlatformMXBean(classOf[OperatingSystemMXBean])

  /** Written as a Hadoop path, in which nothing is escaped, unlike in a URI. */
  private def local(file: File): String = s"file:${file.getAbsolutePath}"

  private def dataFiles(directory: File): Seq[File] = {
    val found = Option(directory.listFiles).toSeq.flatten.filterNot(file => "_.".contains(file.getName.head))
    if (found.isEmpty) throw new UsageError(s"There is no data in $directory.")
    found.sortBy(_.getName)
  }

  /** Returns how many records there were. */
  private def sort(files: Seq[File], output: File): Int = {
    val buffer = new RecordBuffer
    for (file <- files) Using.resource(new FileInputStream(file))(buffer.append(_, file.length))
    val order = RecordSort.order(buffer)
    Using.resource(new FileOutputStream(output))(new Gathered(buffer, order, 0, buffer.count).writeTo(_))
    buffer.count
  }

  private def readBack(output: File): Stretch = {
    val split = Split(output.getName, 0, output.length / Record.Bytes, output.length)
    Using.resource(new BufferedInputStream(new FileInputStream(output)))(Stretch.read(split, _))
  }
}

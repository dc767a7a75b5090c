package io.penstock.workloads.dfsio

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import io.penstock.workloads.clients.{Client, Content, ContentStream, Place, RateOverTime, Step}

/**
 * What one client did.
 *
 * @param nanos
 *   from being let go to its last file's end
 * @param contentNanos
 *   of those, making and comparing bytes
 * @param wrong
 *   a sentence for each file that does not hold what it should
 */
case class Transferred(
    executor: String,
    share: Seq[Int],
    bytes: Long,
    nanos: Long,
    contentNanos: Long,
    steps: Vector[Step],
    wrong: Seq[String]
)

/** The files of one measurement, in a directory of their own, written and read through one stream at a time. */
case class Transfer(location: String, content: Content, fileBytes: Long) {

  private def path(file: Int) = new Path(f"$location/file-$file%06d")

  def write(client: Client, share: Seq[Int], configuration: Configuration): Transferred =
    one(client, share) { (stream, file, rate) =>
      val from = rate.now
      Using.resource(Place.create(path(file), configuration))(stream.write(_, file.toLong, fileBytes))
      rate.add(from, fileBytes)
      None
    }

  /** Every byte is compared with what it should be. */
  def read(client: Client, share: Seq[Int], configuration: Configuration): Transferred =
    one(client, share) { (stream, file, rate) =>
      var from = rate.now
      Using.resource(path(file).getFileSystem(configuration).open(path(file), Transfer.BufferBytes)) { in =>
        stream
          .difference(in, file.toLong, fileBytes) { size =>
            rate.add(from, size.toLong)
            from = rate.now
          }
          .map(what => s"${path(file).getName} $what")
      }
    }

  private def one(client: Client, share: Seq[Int])(work: (ContentStream, Int, Rate) => Option[String]): Transferred = {
    val stream = new ContentStream(content)
    val rate = new Rate(client.startedNanos)
    val wrong = share.flatMap(work(stream, _, rate))
    Transferred(
      client.executors(client.number),
      share,
      share.size * fileBytes,
      rate.now,
      stream.contentNanos,
      rate.steps,
      wrong
    )
  }
}

object Transfer {

  /** Hadoop's own default of 4 KiB is for file systems that honour it and programs that read lines. */
  private val BufferBytes = 1 << 20
}

/** A client's rate by its own clock, from the moment it was let go. */
private class Rate(startedNanos: Long) {
  private val found = new RateOverTime(stepSeconds = 1)

  def now: Long = System.nanoTime() - startedNanos
  def add(fromNanos: Long, bytes: Long): Unit = found.add(fromNanos, now, bytes, operations = 1)
  def steps: Vector[Step] = found.steps
}

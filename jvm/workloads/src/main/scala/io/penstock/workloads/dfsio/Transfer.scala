package io.penstock.workloads.dfsio

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import io.penstock.workloads.clients.{Client, Content, ContentStream, Place, RateOverTime, Step}

/**
 * The work of one client.
 *
 * @param nanos
 *   from the common start to the end of its last file
 * @param contentNanos
 *   the part of them for generating and comparing bytes
 * @param wrong
 *   a sentence for each file with wrong content
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

/** Which of the files each client works on. */
object Shares {

  /** Files in turns: 0, `clients`, 2 × `clients` … for the first, and so on. */
  def of(client: Int, clients: Int, files: Int): Seq[Int] = client until files by clients

  /**
   * Which client's share each client should read, so that as few files as possible are read in the executor that wrote
   * them: what a node wrote it may still hold, and reading that says little about the store. All shares move on by the
   * same number of clients, so each file is read once, by nobody who wrote it where there is more than one client.
   *
   * @param writtenIn
   *   the executor that wrote each file
   * @param readers
   *   the executor of each client
   */
  def toRead(writtenIn: IndexedSeq[String], readers: IndexedSeq[String]): Int => Int = {
    val clients = readers.size
    val moves = if (clients > 1) 1 until clients else 0 to 0
    val best = moves.minBy(move => readWhereWritten(writtenIn, readers, client => (client + move) % clients))
    client => (client + best) % clients
  }

  /** The number of files that the executor that wrote them also reads. */
  def readWhereWritten(writtenIn: IndexedSeq[String], readers: IndexedSeq[String], shareOf: Int => Int): Int =
    readers.indices.map { client =>
      of(shareOf(client), readers.size, writtenIn.size).count(writtenIn(_) == readers(client))
    }.sum
}

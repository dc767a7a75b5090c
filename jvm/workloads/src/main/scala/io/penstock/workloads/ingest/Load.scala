package io.penstock.workloads.ingest

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import io.penstock.workloads.clients.{Client, Content, ContentStream, Place}

/** What is put where, by how many, for how long; without a rate, as fast as it goes. */
case class Load(
    location: String,
    seconds: Int,
    writers: Int,
    objectBytes: Long,
    bytesPerSecond: Option[Long],
    seed: Long
) {

  def content: Content = new Content(seed)

  /** The points of the rate over time are of so many seconds each: some thousands in all, however long it goes on. */
  def stepSeconds: Int = (seconds + Load.Points - 1) / Load.Points

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

private[ingest] object Load {
  private val Points = 3600
}

/** Time since a moment of the wall clock, which all machines share; it passes as this machine's steady clock runs. */
private class SharedClock(startMs: Long) extends Clock {
  private val offset = (System.currentTimeMillis() - startMs) * 1000000 - System.nanoTime()

  override def now: Long = System.nanoTime() + offset
  override def sleep(nanos: Long): Unit = if (nanos > 0) Thread.sleep(nanos / 1000000, (nanos % 1000000).toInt)
}

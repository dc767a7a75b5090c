package io.penstock.workloads.reads

import java.nio.{ByteBuffer, ByteOrder}

import org.apache.hadoop.fs.{FSDataInputStream, FileStatus, FileSystem, FutureDataInputStreamBuilder, Path}

import io.penstock.workloads.clients.Content

/** What was read is not what was written. */
final class WrongContent(file: String, offset: Long) extends Exception(s"$file differs at byte $offset")

/** The objects in one file system. Their states are asked for once, before anything is timed, as Spark's listing is. */
final class Source(val fileSystem: FileSystem, location: String, data: DataSet) {
  import Source._

  private val content = new Content(DataSet.Seed)
  private val states: Map[Int, FileStatus] =
    data.objects.map(one => one.number -> fileSystem.getFileStatus(one.path(location))).toMap

  val large: DataSet.Object = data.objects.head
  val small: IndexedSeq[DataSet.Object] = data.objects.tail.toIndexedSeq

  /** As a program opens a file that says nothing of how it will read: the file system's settings decide. */
  def open(one: DataSet.Object): FSDataInputStream = opened(one)(_ => ())

  def open(one: DataSet.Object, policy: String): FSDataInputStream = opened(one) { builder =>
    val _ = builder.opt("fs.option.openfile.read.policy", policy)
  }

  private def opened(one: DataSet.Object)(choose: FutureDataInputStreamBuilder => Unit): FSDataInputStream = {
    val path: Path = states(one.number).getPath
    val builder = fileSystem.openFile(path)
    choose(builder)
    // Spark's readers know the state of the file from its listing.
    builder.withFileStatus(states(one.number)).build().get()
  }

  /**
   * Raises `WrongContent` where a byte looked at is not the object's: eight of each 4 KiB, since every 64 KiB of an
   * object differ from all others in each of their words. To compare all would cost more than to read them.
   *
   * @param bytes
   *   from 0 to its limit those of the object from `offset` on
   */
  def look(one: DataSet.Object, offset: Long, bytes: ByteBuffer): Unit = {
    val words = bytes.duplicate.order(ByteOrder.LITTLE_ENDIAN)
    var index = ((-offset % LookEvery + LookEvery) % LookEvery).toInt
    while (index + java.lang.Long.BYTES <= bytes.limit()) {
      if (words.getLong(index) != content.word(one.number.toLong, offset + index))
        throw new WrongContent(one.name, offset + index)
      index += LookEvery
    }
  }
}

object Source {
  private val LookEvery = 4 << 10
}

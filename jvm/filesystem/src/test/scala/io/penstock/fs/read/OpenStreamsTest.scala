package io.penstock.fs.read

import java.lang.management.ManagementFactory

/** What streams hold that are open and do not read. */
class OpenStreamsTest extends ReadsSuite {

  override protected val PageSize: Int = 1 << 20

  /** In bytes, of what is still used. */
  private def heap(): Long = {
    (1 to 3).foreach(_ => System.gc())
    ManagementFactory.getMemoryMXBean.getHeapMemoryUsage.getUsed
  }

  test("hundreds of streams that stand on a page of a megabyte each hold a small part of one on the heap") {
    val fs = fileSystem()
    val (path, data) = put(3 * PageSize + 5)
    val status = fs.getFileStatus(path)
    assert(readAll(opened(fs, status)) sameElements data)
    val before = heap()
    val streams = Vector.fill(400)(opened(fs, status))
    streams.foreach(in => assert(in.readNBytes(1000) sameElements data.take(1000)))
    val each = (heap() - before) / streams.size
    info(s"$each bytes of heap for an open stream, S3A's own part included")
    streams.foreach(_.close())
    assert(each < PageSize / 10)
  }
}

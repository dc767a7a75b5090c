package io.penstock.fs.read

import org.scalatest.concurrent.Eventually
import org.scalatest.time.{Millis, Seconds, Span}

import io.penstock.fs.Counters
import io.penstock.fs.testing.Fault

/** Several processes of one machine share the pages, and the fetching of them. */
class ProcessesTest extends ReadsSuite with Eventually {

  implicit override val patienceConfig: PatienceConfig = PatienceConfig(Span(60, Seconds), Span(20, Millis))

  /** A process that has read before: what comes next is no longer a matter of how fast it loads its classes. */
  private def experienced(): ReaderProcess = {
    val process = new ReaderProcess(conf()).ready()
    val (path, data) = put(100)
    assert(process.call("open", "first", path, data.length, 0) == "opened")
    assert(process.call("pread", "first", 0, data.length) == ReaderProcess.checksum(data))
    process
  }

  test("two processes that miss the same page send one request") {
    val (path, data) = nextAged()
    val status = fileSystem().getFileStatus(path)
    val processes = Seq.fill(2)(experienced())
    try {
      for (process <- processes)
        assert(process.call("open", "s", path, status.getLen, status.getModificationTime) == "opened")
      gateway.clear()
      gateway.inject(Fault.Delay(500))()
      processes.foreach(_.ask("pread", "s", 3 * PageSize + 10, 100))
      val wanted = ReaderProcess.checksum(data.slice(3 * PageSize + 10, 3 * PageSize + 110))
      assert(processes.map(_.answer()) == Seq(wanted, wanted))
      assert(pagesFetched == Vector(3 to 3))
      assert(confirmations == 0)
    } finally processes.foreach(_.close())
  }

  test("KilledWhileFilling: a process that dies in the middle of a page holds nobody up, and leaves no torn page") {
    val (path, data) = nextAged()
    val fs = fileSystem()
    val status = fs.getFileStatus(path)
    val victim = experienced()
    try {
      assert(victim.call("open", "s", path, status.getLen, status.getModificationTime) == "opened")
      gateway.clear()
      gateway.inject(Fault.Slow(8000))()
      victim.ask("pread", "s", 5 * PageSize, 100)
      eventually(assert(gateway.requests.exists(_.bytesDown > PageSize / 8)))
    } finally victim.kill()
    val piece = new Array[Byte](PageSize)
    val in = opened(fs, status)
    val waits = Counters.FillWaits.value
    in.readFully(5L * PageSize, piece)
    assert(Counters.FillWaits.value == waits, "it waited for the dead")
    in.close()
    assert(piece sameElements data.slice(5 * PageSize, 6 * PageSize))
    assert(pagesFetched == Vector(5 to 5, 5 to 5))
  }
}

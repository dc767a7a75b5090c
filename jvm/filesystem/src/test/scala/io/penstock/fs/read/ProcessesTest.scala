package io.penstock.fs.read

import java.io.{BufferedReader, Closeable, File, InputStreamReader, PrintWriter}
import java.nio.ByteBuffer
import java.nio.file.Files
import java.util.concurrent.{ExecutionException, TimeUnit}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.s3a.RemoteFileChangedException
import org.apache.hadoop.fs.{FSDataInputStream, FileRange, FileStatus, FileSystem, Path}
import org.scalatest.concurrent.Eventually
import org.scalatest.time.{Millis, Seconds, Span}

import io.penstock.faults.Fault
import io.penstock.fs.metrics.Counters

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

/** Another process of this machine that obeys commands, line by line; it dies with this one. */
final private[read] class ReaderProcess(conf: Configuration) extends Closeable {

  private val process = {
    val java = s"${System.getProperty("java.home")}/bin/java"
    val options = Seq("-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    val main = Seq("-cp", System.getProperty("java.class.path"), "io.penstock.fs.read.ReaderProcess")
    val command = (java +: options) ++ main
    val log = Files.createTempFile("penstock-reader-", ".log").toFile
    log.deleteOnExit()
    new ProcessBuilder(command.asJava).redirectError(log).start()
  }

  private val out = new PrintWriter(process.getOutputStream, true)
  private val in = new BufferedReader(new InputStreamReader(process.getInputStream))

  // The keys in it must not be in a command line; the file is its owner's alone, and gone when it has been read.
  locally {
    val file = Files.createTempFile("penstock-reader-", ".xml")
    Files.setPosixFilePermissions(
      file,
      java.util.Set.of(
        java.nio.file.attribute.PosixFilePermission.OWNER_READ,
        java.nio.file.attribute.PosixFilePermission.OWNER_WRITE
      )
    )
    val stream = Files.newOutputStream(file)
    try conf.writeXml(stream)
    finally stream.close()
    out.println(file)
  }

  /** Waits until it has started. */
  def ready(): this.type = {
    require(in.readLine() == "ready")
    this
  }

  def ask(command: Any*): Unit = out.println(command.mkString(" "))

  /** The answer to the oldest command that has none yet; a checksum, or what failed. */
  def answer(): String = Option(in.readLine()).getOrElse("dead")

  def call(command: Any*): String = {
    ask(command: _*)
    answer()
  }

  def kill(): Unit = process.destroyForcibly().waitFor(): Unit

  override def close(): Unit = kill()
}

private[read] object ReaderProcess {

  /** `open`, `close`, `read` (at the stream's position), `pread`, `vector`; with a stream's name first. */
  def main(arguments: Array[String]): Unit = {
    require(arguments.isEmpty, "everything comes by standard input")
    val in = new BufferedReader(new InputStreamReader(System.in))
    val file = new File(in.readLine())
    // A copy: Hadoop would read the file again, whenever a class adds defaults.
    val written = new Configuration(false)
    written.addResource(new Path(file.toURI))
    val conf = new Configuration()
    written.forEach(setting => conf.set(setting.getKey, setting.getValue))
    file.delete()
    println("ready")
    val streams = mutable.Map.empty[String, FSDataInputStream]
    var line = in.readLine()
    while (line != null) {
      println(answer(conf, streams, line.split(' ').toList))
      line = in.readLine()
    }
  }

  private def answer(conf: Configuration, streams: mutable.Map[String, FSDataInputStream], line: List[String]): String =
    try
      line match {
        case List("open", name, path, length, modified) =>
          val at = new Path(path)
          streams(name) = open(at.getFileSystem(conf), at, length.toLong, modified.toLong)
          "opened"
        case List("close", name) =>
          streams.remove(name).foreach(_.close())
          "closed"
        case List("read", name, position, length) =>
          val stream = streams(name)
          stream.seek(position.toLong)
          checksum(stream.readNBytes(length.toInt))
        case List("pread", name, position, length) =>
          val bytes = new Array[Byte](length.toInt)
          streams(name).readFully(position.toLong, bytes)
          checksum(bytes)
        case "vector" :: name :: wanted =>
          val ranges =
            wanted.map(_.split('+')).map { case each => FileRange.createFileRange(each(0).toLong, each(1).toInt) }
          streams(name).readVectored(ranges.asJava, ByteBuffer.allocate(_))
          checksum(ranges.flatMap(range => take(range.getData.get(60, TimeUnit.SECONDS))).toArray)
        case other => s"what is ${other.mkString(" ")}?"
      }
    catch {
      case _: RemoteFileChangedException => "changed"
      case e: ExecutionException if e.getCause.isInstanceOf[RemoteFileChangedException] => "changed"
      case e: Exception => s"failed: $e"
    }

  def open(fs: FileSystem, path: Path, length: Long, modified: Long): FSDataInputStream =
    fs.openFile(path).withFileStatus(new FileStatus(length, false, 1, 1L, modified, path)).build().get()

  private def take(buffer: ByteBuffer): Array[Byte] = {
    val bytes = new Array[Byte](buffer.remaining)
    buffer.get(bytes)
    bytes
  }

  def checksum(bytes: Array[Byte]): String = {
    val crc = new java.util.zip.CRC32C
    crc.update(bytes, 0, bytes.length)
    s"${bytes.length}:${crc.getValue}"
  }
}

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

/** Another process of this machine that reads what it is told, line by line; it dies with this one. */
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

package io.penstock.fs

import java.io.{IOException, PrintStream}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Paths}
import java.util.Properties
import java.util.concurrent.atomic.AtomicLong
import java.util.concurrent.{ExecutionException, Executors, TimeUnit, TimeoutException}

import scala.jdk.CollectionConverters._
import scala.util.Using

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Options.OpenFileOptions
import org.apache.hadoop.fs.{FileStatus, FileSystem, Path}

import io.penstock.fs.cache.CacheSettings
import io.penstock.fs.metrics.Counters

/**
 * Reads objects as an application would, so that their pages are near when one does. They are kept on disk too, however
 * near the store is: whoever asks for this has his reasons.
 *
 * Arguments: a properties file with Hadoop's settings, a number of threads, and paths; what is below a path is read
 * too. Writes its progress to standard output, a JSON object a line, the last with `done`; or one with `error` and
 * `path`, and exit code 1.
 */
object CacheWarmer {

  /** Of a large object several threads read one piece each. */
  private val PieceBytes = 32L << 20
  private val BufferBytes = 1 << 20
  private val TellMs = 500L

  def main(arguments: Array[String]): Unit = {
    val conf = settings(arguments(0))
    val code =
      try {
        new CacheWarmer(conf, arguments(1).toInt, Console.out).read(arguments.drop(2).toVector.map(new Path(_)))
        0
      } catch {
        case problem: Unreadable =>
          Console.out.println(json("error" -> problem.getCause.getMessage, "path" -> problem.path.toString))
          1
      }
    // The clients' threads would keep the JVM alive.
    FileSystem.closeAll()
    System.exit(code)
  }

  final private class Unreadable(val path: Path, cause: Throwable) extends RuntimeException(cause)

  final private case class Piece(file: FileStatus, start: Long, length: Long)

  private def settings(file: String): Configuration = {
    val properties = new Properties
    Using.resource(Files.newBufferedReader(Paths.get(file), UTF_8))(properties.load(_))
    val conf = new Configuration()
    for ((name, value) <- properties.asScala) conf.set(name, value)
    conf.set(CacheSettings.Admission, "always")
    conf
  }

  private def json(fields: (String, Any)*): String = new ObjectMapper().writeValueAsString(fields.toMap.asJava)
}

final private[fs] class CacheWarmer(conf: Configuration, threads: Int, out: PrintStream) {
  import CacheWarmer._

  private val bytesRead = new AtomicLong
  private val filesRead = new AtomicLong

  /** Raises `Unreadable` for the first path that cannot be listed or read. */
  def read(paths: Seq[Path]): Unit = {
    val files = paths.flatMap(filesBelow)
    val before = Counters.now()
    val pool = Executors.newFixedThreadPool(threads)
    try {
      val reading = files.flatMap(piecesOf).map(piece => pool.submit[Unit](() => read(piece)))
      for (piece <- reading) {
        var waiting = true
        while (waiting)
          try {
            piece.get(TellMs, TimeUnit.MILLISECONDS)
            waiting = false
          } catch {
            case _: TimeoutException => tell(files, before, done = false)
            case failure: ExecutionException => throw failure.getCause
          }
      }
      tell(files, before, done = true)
    } finally pool.shutdownNow(): Unit
  }

  private def filesBelow(path: Path): Seq[FileStatus] = explained(path) {
    val found = path.getFileSystem(conf).listFiles(path, true)
    Iterator.continually(found).takeWhile(_.hasNext).map(_.next()).filter(_.getLen > 0).toVector
  }

  private def piecesOf(file: FileStatus): Seq[Piece] =
    (0L until file.getLen by PieceBytes).map(start => Piece(file, start, PieceBytes.min(file.getLen - start)))

  private def read(piece: Piece): Unit = explained(piece.file.getPath) {
    val path = piece.file.getPath
    val opened = path
      .getFileSystem(conf)
      .openFile(path)
      .withFileStatus(piece.file)
      .optLong(OpenFileOptions.FS_OPTION_OPENFILE_SPLIT_END, piece.start + piece.length)
      .build()
      .get()
    val buffer = new Array[Byte](BufferBytes)
    Using.resource(opened) { stream =>
      stream.seek(piece.start)
      var left = piece.length
      while (left > 0) {
        val length = left.min(BufferBytes.toLong).toInt
        stream.readFully(buffer, 0, length)
        left -= length
        bytesRead.addAndGet(length)
      }
    }
    if (piece.start + piece.length == piece.file.getLen) filesRead.incrementAndGet(): Unit
  }

  private def tell(files: Seq[FileStatus], before: Map[String, Long], done: Boolean): Unit = {
    val counts = Counters.now().collect {
      case (name, value) if value != before(name) => name -> (value - before(name))
    }
    out.println(
      json(
        "done" -> done,
        "objects" -> filesRead.get,
        "of_objects" -> files.size,
        "bytes" -> bytesRead.get,
        "of_bytes" -> files.map(_.getLen).sum,
        "lake" -> counts.asJava
      )
    )
    out.flush()
  }

  private def explained[A](path: Path)(work: => A): A =
    try work
    catch {
      case failure: IOException => throw new Unreadable(path, failure)
      case failure: ExecutionException => throw new Unreadable(path, failure.getCause)
    }
}

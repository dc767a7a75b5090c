package io.penstock.skipping.history

import java.io.FileNotFoundException
import java.util.concurrent.Executors

import scala.concurrent.duration.Duration
import scala.concurrent.{Await, ExecutionContext, Future}
import scala.util.Using
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.slf4j.LoggerFactory

import io.penstock.skipping.AtomicFile

/** The notes of the last applications, a file each in one directory of the lake. */
class History(directory: String, conf: Configuration) {

  import History._

  private val root = new Path(directory)
  private val fs = root.getFileSystem(conf)

  /** Replaces what the application has noted before: a reader sees the one or the other, whole. */
  def write(application: String, content: Array[Byte]): Unit =
    AtomicFile.replace(new Path(root, application + Suffix), content, conf)

  /** Removes the oldest files beyond those of the last applications. */
  def prune(): Unit = newest().drop(Applications).foreach(file => fs.delete(file.getPath, false))

  /**
   * What the last applications asked of a table, those questions that read most. A file that cannot be read is left out
   * with a warning: the rest is still true.
   */
  def of(table: String): Seq[ScanNote] = read()
    .filter(_.table == table)
    .groupMapReduce(NoteFile.identity)(identity)(_ and _)
    .values
    .toSeq
    .sortBy(note => (-note.bytes, NoteFile.identity(note)))
    .take(NoteBook.MostQuestions)

  private def read(): Seq[ScanNote] = {
    val pool = Executors.newFixedThreadPool(Requests)
    try {
      implicit val context: ExecutionContext = ExecutionContext.fromExecutorService(pool)
      Await.result(Future.traverse(newest().take(Applications))(file => Future(notes(file))), Duration.Inf).flatten
    } finally pool.shutdownNow()
  }

  private def notes(file: FileStatus): Seq[ScanNote] =
    try NoteFile.read(Using.resource(fs.open(file.getPath))(_.readAllBytes()))
    catch {
      case _: FileNotFoundException => Nil
      case NonFatal(e) =>
        log.warn(s"The notes of queries in ${file.getPath} are left out: ${e.getMessage}")
        Nil
    }

  private def newest(): Seq[FileStatus] = {
    val files =
      try fs.listStatus(root).toSeq
      catch { case _: FileNotFoundException => Nil }
    files.filter(_.getPath.getName.endsWith(Suffix)).sortBy(-_.getModificationTime)
  }
}

object History {
  private val log = LoggerFactory.getLogger(classOf[History])

  private val Suffix = ".json"

  /** What queries asked for longer ago says little of those to come. */
  private val Applications = 500

  /** On their way at once. */
  private val Requests = 16
}

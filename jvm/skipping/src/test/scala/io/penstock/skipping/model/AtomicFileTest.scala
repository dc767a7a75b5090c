package io.penstock.skipping.model

import java.io.{ByteArrayOutputStream, IOException, OutputStream}
import java.net.URI
import java.nio.file.{Files, Path => LocalPath}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.util.Progressable
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.PlainLocalFileSystem

/** A small file that is replaced while its writer fails. */
class AtomicFileTest extends AnyFunSuite {

  import AtomicFileTest._

  private val conf = new Configuration
  conf.set("fs.objects.impl", classOf[Objects].getName)
  conf.set("fs.file.impl", classOf[TornFiles].getName)

  private def replaced(scheme: String)(content: String): (LocalPath, Either[IOException, Unit]) = {
    val directory = Files.createTempDirectory("atomic-file-")
    val file = new Path(new URI(s"$scheme://${directory.resolve("manifest")}"))
    AtomicFile.replace(file, "before".getBytes, conf)
    val outcome =
      try Right(AtomicFile.replace(file, content.getBytes, conf))
      catch { case e: IOException => Left(e) }
    (directory.resolve("manifest"), outcome)
  }

  for (scheme <- Seq("objects", "file")) {
    test(s"$scheme: a write that breaks off half way publishes nothing and leaves nothing") {
      val (file, outcome) = replaced(scheme)(Torn)
      assert(outcome.left.exists(_.getMessage == "the disk is full"))
      assert(Files.readString(file) == "before")
      assert(
        Files.list(file.getParent).toArray.map(_.toString).filterNot(_.endsWith(".crc")).toSeq == Seq(file.toString)
      )
    }

    test(s"$scheme: a write that ends well replaces the file") {
      val (file, outcome) = replaced(scheme)("after")
      assert(outcome == Right(()) && Files.readString(file) == "after")
    }
  }
}

private object AtomicFileTest {

  /** Of this content only a part can be written. */
  val Torn = "torn: half of it is written"

  /** Passes on what it can take, and fails then. */
  private def torn(content: Array[Byte]): Option[Array[Byte]] =
    Option.when(new String(content).startsWith("torn"))(content.take(content.length / 2))

  private def failing(to: OutputStream): OutputStream = new OutputStream {
    override def write(byte: Int): Unit = to.write(byte)
    override def write(bytes: Array[Byte], offset: Int, length: Int): Unit =
      torn(bytes.slice(offset, offset + length)) match {
        case Some(part) => to.write(part); throw new IOException("the disk is full")
        case None => to.write(bytes, offset, length)
      }
    override def flush(): Unit = to.flush()
    override def close(): Unit = to.close()
  }

  /** Shows an object when its stream is closed, as an object store does, and not when it is aborted. */
  private class Upload(file: LocalPath) extends OutputStream with Abortable with StreamCapabilities {
    private val buffer = new ByteArrayOutputStream
    private val sink = failing(buffer)
    private var aborted = false

    override def write(byte: Int): Unit = sink.write(byte)
    override def write(bytes: Array[Byte], offset: Int, length: Int): Unit = sink.write(bytes, offset, length)
    override def close(): Unit = if (!aborted) Files.write(file, buffer.toByteArray): Unit
    override def abort(): Abortable.AbortableResult = {
      aborted = true
      new Abortable.AbortableResult {
        override def alreadyClosed(): Boolean = false
        override def anyCleanupException(): IOException = null
      }
    }
    override def hasCapability(capability: String): Boolean = capability == CommonPathCapabilities.ABORTABLE_STREAM
  }

  class Objects extends RawLocalFileSystem {
    override def getUri: URI = URI.create("objects:///")
    override def getScheme: String = "objects"
    override def hasPathCapability(path: Path, capability: String): Boolean =
      capability == CommonPathCapabilities.ABORTABLE_STREAM || super.hasPathCapability(path, capability)
    override def create(path: Path, overwrite: Boolean, size: Int, replication: Short, block: Long, p: Progressable) =
      new FSDataOutputStream(new Upload(pathToFile(path).toPath), null)
  }

  class TornFiles extends PlainLocalFileSystem {
    override def create(
        path: Path,
        permission: FsPermission,
        overwrite: Boolean,
        size: Int,
        replication: Short,
        block: Long,
        progress: Progressable
    ): FSDataOutputStream = wrapped(super.create(path, permission, overwrite, size, replication, block, progress))

    override def create(path: Path, overwrite: Boolean, size: Int, replication: Short, block: Long, p: Progressable) =
      wrapped(super.create(path, overwrite, size, replication, block, p))

    private def wrapped(out: FSDataOutputStream) = new FSDataOutputStream(failing(out), null)
  }
}

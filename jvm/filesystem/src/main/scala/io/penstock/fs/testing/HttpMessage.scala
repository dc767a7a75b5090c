package io.penstock.fs.testing

import java.io.{ByteArrayOutputStream, EOFException, InputStream}
import java.nio.charset.StandardCharsets.ISO_8859_1

/** The head of an HTTP/1.1 message, and its bytes as they came: a signed request must be passed on unchanged. */
final private[testing] class HttpHead(val bytes: Array[Byte]) {
  private val lines = new String(bytes, ISO_8859_1).split("\r\n")

  /** The request line's or the status line's parts. */
  val start: Array[String] = lines.head.split(" ", 3)

  /** By lower-case name. */
  val headers: Map[String, String] = lines.tail.iterator
    .filter(_.nonEmpty)
    .map { line =>
      val colon = line.indexOf(':')
      line.substring(0, colon).toLowerCase -> line.substring(colon + 1).trim
    }
    .toMap

  def says(header: String, token: String): Boolean = headers.get(header).exists(_.toLowerCase.contains(token))

  /** How the body ends (RFC 9112, section 6.3); a response to HEAD is the caller's business. */
  def framing(untilClose: Boolean): Framing =
    if (says("transfer-encoding", "chunked")) Framing.Chunked
    else
      headers.get("content-length").map(length => Framing.Length(length.toLong)).getOrElse {
        if (untilClose) Framing.UntilClose else Framing.Length(0)
      }
}

private[testing] object HttpHead {

  /** None where the connection ends before a message begins. */
  def read(in: InputStream): Option[HttpHead] = {
    val bytes = new ByteArrayOutputStream(1024)
    var matched = 0
    while (matched < 4) {
      val byte = in.read()
      if (byte < 0) {
        if (bytes.size > 0) throw new EOFException("in the middle of a message's head")
        return None
      }
      bytes.write(byte)
      matched = if (byte == (if (matched % 2 == 0) '\r' else '\n')) matched + 1 else if (byte == '\r') 1 else 0
    }
    Some(new HttpHead(bytes.toByteArray))
  }
}

sealed private[testing] trait Framing

private[testing] object Framing {
  case object Chunked extends Framing
  case object UntilClose extends Framing
  final case class Length(bytes: Long) extends Framing
}

private[testing] object HttpBody {

  private val Piece = 16 << 10

  /** Where a body's bytes go: (buffer, length, whether they are content and not the framing around it). */
  type Sink = (Array[Byte], Int, Boolean) => Unit

  /** Passes one body on as it came; ends when `sink` throws. */
  def relay(in: InputStream, framing: Framing)(sink: Sink): Unit = framing match {
    case Framing.Length(bytes) => content(in, bytes)(sink)
    case Framing.UntilClose =>
      val buffer = new Array[Byte](Piece)
      Iterator.continually(in.read(buffer)).takeWhile(_ >= 0).foreach(length => sink(buffer, length, true))
    case Framing.Chunked =>
      var size = -1L
      while (size != 0) {
        val line = lineOf(in, sink)
        size = java.lang.Long.parseLong(line.takeWhile(_ != ';').trim, 16)
        if (size > 0) {
          content(in, size)(sink)
          lineOf(in, sink)
        }
      }
      // Trailers, and the empty line that ends them.
      while (lineOf(in, sink).nonEmpty) {}
  }

  private def content(in: InputStream, length: Long)(sink: Sink): Unit = {
    val buffer = new Array[Byte](math.min(length, Piece).toInt)
    var left = length
    while (left > 0) {
      val read = in.read(buffer, 0, math.min(left, buffer.length).toInt)
      if (read < 0) throw new EOFException(s"$left bytes before the end of a body")
      sink(buffer, read, true)
      left -= read
    }
  }

  private def lineOf(in: InputStream, sink: Sink): String = {
    val line = new ByteArrayOutputStream
    var byte = in.read()
    while (byte != '\n') {
      if (byte < 0) throw new EOFException("in the middle of a chunked body")
      line.write(byte)
      byte = in.read()
    }
    line.write('\n')
    sink(line.toByteArray, line.size, false)
    line.toString(ISO_8859_1).trim
  }
}

package io.penstock.faults

import java.io.{BufferedInputStream, ByteArrayOutputStream, EOFException, IOException, InputStream, OutputStream}
import java.net.{InetSocketAddress, Socket}
import java.nio.charset.StandardCharsets.{ISO_8859_1, UTF_8}
import java.util.concurrent.TimeUnit.SECONDS
import java.util.concurrent.atomic.AtomicLong

/** One request on its way through a [[FaultyGateway]]. */
final private[faults] class Exchange(val head: HttpHead, bandwidth: Option[TokenBucket]) {
  @volatile var fault: Option[Fault] = None
  @volatile var status: Int = 0
  private val up = new AtomicLong
  private val down = new AtomicLong

  private val (path, query) = {
    val target = head.start(1)
    val mark = target.indexOf('?')
    if (mark < 0) (target, "") else (target.substring(0, mark), target.substring(mark + 1))
  }

  def recorded: FaultyGateway.Recorded =
    FaultyGateway.Recorded(head.start(0), path, query, head.headers, status, up.get, down.get)

  /** Takes the request's body to `to`, as far as the fault lets it. */
  def uplink(to: OutputStream): HttpBody.Sink = {
    val most = fault.collect { case Fault.CutUploadAfter(bytes) => bytes }
    (buffer, length, content) => pass(to, buffer, length, content, up, most)
  }

  def downlink(to: OutputStream): HttpBody.Sink = {
    val most = fault.collect { case Fault.CutAfter(bytes, _) => bytes }
    val pace = fault.collect { case Fault.Slow(rate) => new TokenBucket(rate) }
    val flipped = fault.collect { case Fault.Flip(at) => at }
    (buffer, length, content) => {
      pace.foreach(_.take(length))
      for (at <- flipped.map(_ - down.get) if content && at >= 0 && at < length)
        buffer(at.toInt) = (buffer(at.toInt) ^ 1).toByte
      pass(to, buffer, length, content, down, most)
    }
  }

  private def pass(
      to: OutputStream,
      buffer: Array[Byte],
      length: Int,
      content: Boolean,
      counted: AtomicLong,
      most: Option[Long]
  ): Unit = {
    bandwidth.foreach(_.take(length))
    val allowed = most.fold(length)(most => math.min(length.toLong, most - counted.get).toInt)
    // Counted first: who has received a byte finds it in the record.
    if (content) counted.addAndGet(allowed)
    to.write(buffer, 0, allowed)
    if (most.exists(counted.get >= _)) throw new Exchange.Cut
  }
}

private[faults] object Exchange {

  /** The fault has come to the byte at which the connection ends. */
  final class Cut extends IOException("cut")
}

/** A client's connection: its requests, one after the other, each passed to the store or treated as its fault says. */
final private[faults] class Connection(client: Socket, store: InetSocketAddress, arrived: HttpHead => Exchange) {
  client.setTcpNoDelay(true)
  private val in = new BufferedInputStream(client.getInputStream, Connection.Buffer)
  private val out = client.getOutputStream
  private var upstream: Option[Connection.Upstream] = None

  def serve(): Unit =
    try while (HttpHead.read(in).exists(head => exchange(arrived(head)))) {}
    finally upstream.foreach(_.socket.close())

  /** Whether another request may follow on this connection. */
  private def exchange(now: Exchange): Boolean = now.fault match {
    case Some(Fault.Reset) => reset()
    case Some(Fault.BlackHole) =>
      while (in.read() >= 0) {}
      false
    case Some(answer: Fault.Answer) => answerItself(now, answer)
    case fault =>
      try served(now)
      catch {
        case _: Exchange.Cut => if (fault.exists(Connection.endsInReset)) reset() else false
      }
  }

  private def served(now: Exchange): Boolean = {
    val store = connected()
    store.out.write(now.head.bytes)
    val body = now.head.framing(untilClose = false)
    val waits = now.head.says("expect", "100-continue")
    if (!waits) HttpBody.relay(in, body)(now.uplink(store.out))
    var response = nextHead(store)
    // 100 Continue, and whatever else comes before the answer itself.
    while (response.start(1).startsWith("1")) {
      out.write(response.bytes)
      if (waits) HttpBody.relay(in, body)(now.uplink(store.out))
      response = nextHead(store)
    }
    now.fault match {
      case Some(Fault.LoseResponse) => reset()
      case fault =>
        fault.foreach {
          case Fault.Delay(milliseconds) => Thread.sleep(milliseconds)
          case Fault.Held(until) => until.await()
          case _ => ()
        }
        respond(now, store, response)
    }
  }

  private def respond(now: Exchange, store: Connection.Upstream, response: HttpHead): Boolean = {
    val head = now.fault match {
      case Some(Fault.Misstated(status, headers)) => response.saying(status, headers)
      case _ => response
    }
    now.status = head.start(1).toInt
    out.write(head.bytes)
    if (!Connection.bodiless(now)) HttpBody.relay(store.in, response.framing(untilClose = true))(now.downlink(out))
    store.lastUsed = System.nanoTime()
    !response.says("connection", "close") && !now.head.says("connection", "close")
  }

  private def answerItself(now: Exchange, answer: Fault.Answer): Boolean = {
    val waits = now.head.says("expect", "100-continue")
    if (!waits) HttpBody.relay(in, now.head.framing(untilClose = false))((_, _, _) => ())
    val body =
      s"""<?xml version="1.0" encoding="UTF-8"?><Error><Code>${answer.code}</Code><Message>injected</Message></Error>"""
        .getBytes(UTF_8)
    val headers =
      answer.headers ++ Map("Content-Type" -> "application/xml", "Content-Length" -> body.length.toString) ++
        // A client that waits may or may not send its body after such an answer: the connection cannot be used again.
        Option.when(waits)("Connection" -> "close")
    val head = s"HTTP/1.1 ${answer.status} ${answer.code}\r\n" + headers.map { case (k, v) => s"$k: $v\r\n" }.mkString
    now.status = answer.status
    out.write((head + "\r\n").getBytes(ISO_8859_1))
    if (now.head.start(0) != "HEAD") out.write(body)
    !waits
  }

  private def nextHead(store: Connection.Upstream): HttpHead =
    HttpHead.read(store.in).getOrElse(throw new IOException("the store ended the connection"))

  /** One connection to the store for each of the client's, made anew where the store may have given it up meanwhile. */
  private def connected(): Connection.Upstream = {
    if (!upstream.exists(_.fresh)) {
      upstream.foreach(_.socket.close())
      upstream = Some(new Connection.Upstream(store))
    }
    upstream.get
  }

  private def reset(): Boolean = {
    FaultyGateway.reset(client)
    false
  }
}

private object Connection {
  private val Buffer = 64 << 10

  private def endsInReset(fault: Fault): Boolean = fault match {
    case Fault.CutAfter(_, reset) => reset
    case _ => true
  }

  private def bodiless(now: Exchange): Boolean =
    now.head.start(0) == "HEAD" || now.status == 204 || now.status == 304

  final private class Upstream(store: InetSocketAddress) {
    val socket = new Socket(store.getAddress, store.getPort)
    socket.setTcpNoDelay(true)
    val in = new BufferedInputStream(socket.getInputStream, Buffer)
    val out: OutputStream = socket.getOutputStream
    var lastUsed: Long = System.nanoTime()

    def fresh: Boolean = System.nanoTime() - lastUsed < SECONDS.toNanos(1)
  }
}

/** The head of an HTTP/1.1 message, and its bytes as they came: a signed request must be passed on unchanged. */
final private[faults] class HttpHead(val bytes: Array[Byte]) {
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

  /**
   * A response's head with another status, and with `instead` for the headers of the same names; an empty one is gone.
   */
  def saying(status: Int, instead: Map[String, String]): HttpHead = {
    val names = instead.keySet.map(_.toLowerCase)
    val kept = lines.tail.filterNot(line => names(line.takeWhile(_ != ':').toLowerCase))
    val added = instead.collect { case (name, value) if value.nonEmpty => s"$name: $value" }
    new HttpHead((s"${start(0)} $status Told" +: (kept ++ added)).mkString("", "\r\n", "\r\n\r\n").getBytes(ISO_8859_1))
  }

  /** How the body ends (RFC 9112, section 6.3); a response to HEAD is the caller's business. */
  def framing(untilClose: Boolean): Framing =
    if (says("transfer-encoding", "chunked")) Framing.Chunked
    else
      headers.get("content-length").map(length => Framing.Length(length.toLong)).getOrElse {
        if (untilClose) Framing.UntilClose else Framing.Length(0)
      }
}

private[faults] object HttpHead {

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

sealed private[faults] trait Framing

private[faults] object Framing {
  case object Chunked extends Framing
  case object UntilClose extends Framing
  final case class Length(bytes: Long) extends Framing
}

private[faults] object HttpBody {

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

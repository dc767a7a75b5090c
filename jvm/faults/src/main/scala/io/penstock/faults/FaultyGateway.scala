package io.penstock.faults

import java.io.{Closeable, IOException}
import java.net.{InetAddress, InetSocketAddress, ServerSocket, Socket, URI}
import java.util.concurrent.TimeUnit.{MILLISECONDS, SECONDS}
import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.locks.LockSupport
import java.util.concurrent.{ConcurrentHashMap, CopyOnWriteArrayList, CountDownLatch}

import scala.jdk.CollectionConverters._

/**
 * An HTTP gateway in front of an S3 store that records every request, and misbehaves on command.
 *
 * Messages pass unchanged, the `Host` header above all: the client signed it, and the store verifies it. Use it as a
 * gateway of its own: give the client [[endpoint]], not the store's.
 *
 * @param upstream
 *   the store
 * @param address
 *   where to listen: any of 127.0.0.0/8, so that several gateways can share a port, as a name with several addresses
 *   does
 * @param listenPort
 *   0 chooses a free one
 * @param bytesPerSecond
 *   what bodies share, in both directions and over all connections; 0 is no limit
 */
final class FaultyGateway(
    upstream: InetSocketAddress,
    address: String = "127.0.0.1",
    listenPort: Int = 0,
    bytesPerSecond: Long = 0
) extends Closeable {

  import FaultyGateway._

  private val bandwidth = Option.when(bytesPerSecond > 0)(new TokenBucket(bytesPerSecond))
  private val rules = new CopyOnWriteArrayList[Rule]
  private val seen = new CopyOnWriteArrayList[Exchange]
  private val connections = ConcurrentHashMap.newKeySet[Socket]()
  @volatile private var listener = listen(listenPort)

  /** The same for its whole life. */
  val port: Int = listener.getLocalPort

  val endpoint: String = s"http://$address:$port"

  /** Every request so far, in the order of arrival; what its client has heard is in it already. */
  def requests: Vector[Recorded] = seen.asScala.iterator.map(_.recorded).toVector

  /** Connections that are open now. */
  def connected: Int = connections.size

  /** Forgets the requests so far. */
  def clear(): Unit = seen.clear()

  /**
   * Does this to the next `times` requests for which `when` is true, `skip` others left alone before; older rules
   * first.
   */
  def inject(fault: Fault, times: Int = 1, skip: Int = 0)(when: Recorded => Boolean = _ => true): Unit =
    rules.add(new Rule(fault, when, new AtomicInteger(-skip), times))

  /** Every injected fault ends with the request it is at. */
  def heal(): Unit = rules.clear()

  /** Dies: every connection is reset, new ones are refused. */
  def refuse(): Unit = {
    listener.close()
    connections.asScala.foreach(reset)
  }

  /** Comes back, on the same port. */
  def accept(): Unit = if (listener.isClosed) listener = listen(port)

  override def close(): Unit = refuse()

  private def listen(port: Int): ServerSocket = {
    val socket = new ServerSocket
    socket.setReuseAddress(true)
    socket.bind(new InetSocketAddress(InetAddress.getByName(address), port), Backlog)
    start(s"gateway-${socket.getLocalPort}") {
      while (!socket.isClosed) {
        val client = socket.accept()
        connections.add(client)
        start(s"gateway-${client.getLocalPort}-${client.getPort}") {
          try new Connection(client, upstream, arrived).serve()
          finally {
            connections.remove(client)
            client.close()
          }
        }
        // Refused between the two: nobody else would reset it.
        if (socket.isClosed) reset(client)
      }
    }
    socket
  }

  private def arrived(head: HttpHead): Exchange = {
    val exchange = new Exchange(head, bandwidth)
    exchange.fault = rules.asScala.find(_.appliesTo(exchange.recorded)).map(_.fault)
    seen.add(exchange)
    exchange
  }
}

object FaultyGateway {

  /**
   * One request: path and query as they were sent (percent-encoded), headers by lower-case name, the status of the
   * answer (0: none yet), and content bytes of both bodies.
   */
  final case class Recorded(
      method: String,
      path: String,
      query: String,
      headers: Map[String, String],
      status: Int,
      bytesUp: Long,
      bytesDown: Long
  ) {
    def range: Option[String] = headers.get("range")
  }

  private val Backlog = 128

  final private class Rule(val fault: Fault, when: Recorded => Boolean, matched: AtomicInteger, times: Int) {

    def appliesTo(request: Recorded): Boolean = matched.get < times && when(request) && {
      val index = matched.getAndIncrement()
      index >= 0 && index < times
    }
  }

  private[faults] def reset(socket: Socket): Unit =
    try {
      socket.setSoLinger(true, 0)
      socket.close()
    } catch { case _: IOException => () }

  /** In a thread that ends quietly when a connection does. */
  private def start(name: String)(work: => Unit): Unit = {
    val thread = new Thread(
      () =>
        try work
        catch { case _: IOException => () },
      name
    )
    thread.setDaemon(true)
    thread.start()
  }

  /**
   * `--upstream HOST:PORT [--listen PORT] [--address A] [--bytes-per-second N]`: prints its port, and serves until its
   * standard input ends, so that it never outlives who started it.
   */
  def main(arguments: Array[String]): Unit = {
    val options = arguments.grouped(2).map(pair => pair.head.stripPrefix("--") -> pair.last).toMap
    val store = URI.create("http://" + options("upstream"))
    val gateway = new FaultyGateway(
      new InetSocketAddress(store.getHost, store.getPort),
      options.getOrElse("address", "127.0.0.1"),
      options.get("listen").fold(0)(_.toInt),
      options.get("bytes-per-second").fold(0L)(_.toLong)
    )
    println(gateway.port)
    while (System.in.read() >= 0) {}
    gateway.close()
  }
}

/** What goes wrong with one request at a [[FaultyGateway]]. */
sealed trait Fault

object Fault {

  /** The response begins this much later. */
  final case class Delay(milliseconds: Long) extends Fault

  /** The response begins once the latch is at zero. */
  final case class Held(until: CountDownLatch) extends Fault

  /** The response's body comes at this rate. */
  final case class Slow(bytesPerSecond: Long) extends Fault

  /** The connection ends after so many bytes of the response's body: with a FIN, or with an RST. */
  final case class CutAfter(bytes: Long, reset: Boolean = false) extends Fault

  /** The lowest bit of that byte of the response's body is wrong. */
  final case class Flip(at: Long) extends Fault

  /** The response's head has this status, and these headers instead of those of the same name; an empty one is gone. */
  final case class Misstated(status: Int, headers: Map[String, String]) extends Fault

  /** The connection is reset after so many bytes of the request's body have been passed on. */
  final case class CutUploadAfter(bytes: Long) extends Fault

  /** The connection is reset; the store never sees the request. */
  case object Reset extends Fault

  /** The store does what was asked, but the connection is reset instead of saying so. */
  case object LoseResponse extends Fault

  /** The gateway answers by itself; the store never sees the request. */
  final case class Answer(status: Int, code: String, headers: Map[String, String] = Map.empty) extends Fault

  /** No answer, ever, on a connection that stays open; the store never sees the request. */
  case object BlackHole extends Fault

  /** What an overloaded S3 store says. */
  def slowDown(retryAfterSeconds: Option[Int] = None): Answer =
    Answer(503, "SlowDown", retryAfterSeconds.map(seconds => "Retry-After" -> seconds.toString).toMap)

  val InternalError: Answer = Answer(500, "InternalError")
}

/** Lets bytes pass at a rate, whoever's they are; what a moment of idleness left unused may be caught up on. */
final private[faults] class TokenBucket(bytesPerSecond: Long) {
  require(bytesPerSecond > 0, s"$bytesPerSecond bytes per second")

  /** When the last of the bytes granted so far will have passed. */
  private var passed = Long.MinValue

  /** Blocks until the bytes may pass. */
  def take(bytes: Int): Unit = {
    val until = grant(bytes, System.nanoTime())
    var left = until - System.nanoTime()
    while (left > 0) {
      LockSupport.parkNanos(left)
      left = until - System.nanoTime()
    }
  }

  /** When, in the caller's nanoseconds, the bytes will have passed. */
  private[faults] def grant(bytes: Int, now: Long): Long = synchronized {
    val earliest = now - TokenBucket.Burst
    passed = (if (passed == Long.MinValue) now else math.max(passed, earliest)) +
      math.ceil(bytes.toDouble * SECONDS.toNanos(1) / bytesPerSecond).toLong
    passed
  }
}

private object TokenBucket {

  /** A sleep is late by a fraction of a millisecond: without catching up, a fast gateway would be slower than asked. */
  val Burst: Long = MILLISECONDS.toNanos(10)
}
